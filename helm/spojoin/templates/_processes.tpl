{{- /* A release's processes. A process has one role or several. Its name is `together` if it has all roles; otherwise it is
     its roles with `+` between them, which a component's name replaces with `-`. The component of answerers is `pojoin`, since
     each has its worker's number. */}}

{{- define "spojoin.topology" -}}{{ .Files.Get "files/topology.yaml" }}{{- end }}

{{- /* With `--reuse-values`, values that are younger than the release are missing. */}}
{{- define "spojoin.packing" -}}{{ .Values.packing | default "apart" | trim }}{{- end }}

{{- /* The groups of roles that `packing` makes, in the order of the data's flow: a YAML list of {name, component, roles}. */}}
{{- define "spojoin.groups" -}}
{{- $packable := .Files.Get "files/packable.yaml" | fromYaml }}
{{- $roles := $packable.packable }}
{{- $text := include "spojoin.packing" . }}
{{- $groups := list }}
{{- if eq $text "together" }}{{ $groups = list $roles }}
{{- else if ne $text "apart" }}{{ range regexSplit "[\\s,]+" $text -1 }}{{ $groups = append $groups (eq . "answerer" | ternary $packable.answerer (splitList "+" .)) }}{{ end }}
{{- end }}
{{- $named := list }}
{{- range $groups }}{{ range . }}
{{- if not (has . $roles) }}{{ fail (printf "packing: unknown role %q; expected apart, together, or groups, for example router+sink or answerer, of %s" . (join ", " $roles)) }}{{ end }}
{{- if has . $named }}{{ fail (printf "packing names %s twice; a role runs in one process" .) }}{{ end }}
{{- $named = append $named . }}
{{- end }}{{ end }}
{{- range $roles }}{{ if not (has . $named) }}{{ $groups = append $groups (list .) }}{{ end }}{{ end }}
{{- range $first := $roles }}
{{- range $group := $groups }}
{{- $sorted := list }}{{ range $roles }}{{ if has . $group }}{{ $sorted = append $sorted . }}{{ end }}{{ end }}
{{- if eq $first (first $sorted) }}
{{- $name := eq (len $sorted) (len $roles) | ternary "together" (join "+" $sorted) }}
{{- $component := eq $name (join "+" $packable.answerer) | ternary "pojoin" (replace "+" "-" $name) }}
- {name: {{ $name | quote }}, component: {{ $component }}, roles: {{ toJson $sorted }}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The component that a role runs in: dict "root" $ "role" "sink" */}}
{{- define "spojoin.componentOf" -}}
{{- range include "spojoin.groups" .root | fromYamlArray }}{{ if has $.role .roles }}{{ .component }}{{ end }}{{ end }}
{{- end }}

{{- /* The number of PO-Join workers that share a process with other roles: the first ones. */}}
{{- define "spojoin.workersInside" -}}
{{- eq (include "spojoin.componentOf" (dict "root" . "role" "pojoin")) "pojoin" | ternary 0 .Values.pojoin.inside }}
{{- end }}

{{- define "spojoin.workers" -}}
{{- $inside := include "spojoin.workersInside" . | int }}
{{- .Values.pojoin.replicas | default (ternary 2 $inside (eq $inside 0)) }}
{{- end }}

{{- /* The worker count of the first frames. If a controller sets the number of workers, the count covers only workers that
     always run, or follows the layout. */}}
{{- define "spojoin.workersAtFirst" -}}
{{- $layout := (include "spojoin.query" . | fromYaml).layout }}
{{- $asked := kindIs "map" $layout | ternary $layout dict }}
{{- if ne (include "spojoin.hasController" .) "true" }}{{ include "spojoin.workers" . }}
{{- else }}{{ $asked.workers | default (max 1 (include "spojoin.workersInside" . | int)) }}
{{- end }}
{{- end }}

{{- define "spojoin.workersMax" -}}
{{- $inside := include "spojoin.workersInside" . | int }}
{{- $workers := include "spojoin.workers" . | int }}
{{- max $workers $inside (.Values.pojoin.maxReplicas | default (ternary 8 $workers (eq $inside 0)) | int) }}
{{- end }}

{{- /* The numbers of sinks, each with its own partition of the results, and of logical ANDs. */}}
{{- define "spojoin.sinks" -}}{{ include "spojoin.countApart" (dict "root" . "role" "sink" "key" "sink") }}{{- end }}
{{- define "spojoin.logicalAnds" -}}{{ include "spojoin.countApart" (dict "root" . "role" "logical-and" "key" "logicalAnd") }}{{- end }}

{{- /* The number of intakes; 0 if the router reads the inputs itself. */}}
{{- define "spojoin.intakes" -}}{{ (.Values.intake | default dict).replicas | default 0 | int }}{{- end }}

{{- /* How many services report the mutable part: logical ANDs, or as many answerers as there may be workers. */}}
{{- define "spojoin.mutableReporters" -}}
{{- $isInAnswerers := eq (include "spojoin.componentOf" (dict "root" . "role" "logical-and")) "pojoin" }}
{{- include (ternary "spojoin.workersMax" "spojoin.logicalAnds" $isInAnswerers) . }}
{{- end }}

{{- /* How many services a role has that may have several only in processes of their own: dict "root" $ "role" … "key" <its values> */}}
{{- define "spojoin.countApart" -}}
{{- $count := (get .root.Values .key).replicas | default 1 | int }}
{{- if and (gt $count 1) (ne (include "spojoin.componentOf" (dict "root" .root "role" .role)) .role) }}
{{- fail (printf "%s.replicas is %d, and packing %s puts %s into a shared process, which has one: set %s.replicas to 1, or give it processes of its own" .key $count (include "spojoin.packing" .root) .role .key) }}
{{- end }}
{{- $count }}
{{- end }}

{{- /* All processes of the flow: a YAML list of {name, component, roles}. Numbered processes also have `index`, the
     variable of a pod's number, and `start`, the first number. */}}
{{- define "spojoin.processes" -}}
{{- $inside := include "spojoin.workersInside" . | int }}
{{- if include "spojoin.intakes" . | int }}
- {name: intake, component: intake, roles: [intake]}
{{- end }}
{{- range include "spojoin.groups" . | fromYamlArray }}
{{- $index := dict "pojoin" "SPOJOIN_WORKER" }}
{{- $numbered := and (hasKey $index .component) (dict "index" (get $index .component) "start" 0) }}
- {{ merge (dict) . ($numbered | default dict) | toJson }}
{{- end }}
{{- if and $inside (gt (include "spojoin.workersMax" . | int) $inside) }}
- {{ dict "name" "pojoin" "component" "pojoin" "roles" (list "pojoin") "index" "SPOJOIN_WORKER" "start" $inside | toJson }}
{{- end }}
{{- end }}

{{- /* Whether workers are numbered pods, which need the controller. */}}
{{- define "spojoin.isNumbered" -}}
{{- $found := false }}
{{- range include "spojoin.processes" . | fromYamlArray }}{{ if .index }}{{ $found = true }}{{ end }}{{ end }}
{{- $found }}
{{- end }}

{{- define "spojoin.hasController" -}}
{{- if kindIs "invalid" .Values.controller.enabled }}{{ include "spojoin.isNumbered" . }}{{ else }}{{ .Values.controller.enabled }}{{ end }}
{{- end }}

{{- /* Columns by key need the predictor to spread the keys that are too many for one column; nothing else uses plans. */}}
{{- define "spojoin.hasPredictor" -}}
{{- if kindIs "invalid" .Values.predictor.enabled }}{{ eq .Values.pojoin.columnsBy "key" }}{{ else }}{{ .Values.predictor.enabled }}{{ end }}
{{- end }}

{{- /* A process's values: its role's, for an answerer the worker's; for a shared process, `shared` and its entry in `groups`. */}}
{{- define "spojoin.processValues" -}}
{{- $values := .root.Values }}
{{- if eq .process.component "pojoin" }}{{ $values.pojoin | toYaml }}
{{- else if gt (len .process.roles) 1 }}{{ mergeOverwrite (deepCopy $values.shared) (get $values.groups .process.name | default dict) | toYaml }}
{{- else }}{{ get $values (.process.name | camelcase | untitle) | toYaml }}
{{- end }}
{{- end }}

{{- /* The components of a process: its own, and its standby's if standbys run: dict "root" $ "component" "router" */}}
{{- define "spojoin.instances" -}}
{{- $isDoubled := false }}
{{- if .root.Values.standbys }}{{ range include "spojoin.processes" .root | fromYamlArray }}{{ if eq .component $.component }}{{ $isDoubled = true }}{{ end }}{{ end }}{{ end }}
- {{ .component }}
{{- if $isDoubled }}
- {{ .component }}-b
{{- end }}
{{- end }}

{{- /* A selector of the pods of a process and its standby: dict "root" $ "component" "router" */}}
{{- define "spojoin.bothSelector" -}}
{{- $instances := include "spojoin.instances" . | fromYamlArray }}
{{- if eq (len $instances) 1 -}}
matchLabels: {{ include "spojoin.selectorLabels" . | nindent 2 }}
{{- else -}}
matchLabels: {{ omit (include "spojoin.selectorLabels" . | fromYaml) "app.kubernetes.io/component" | toYaml | nindent 2 }}
matchExpressions: [{key: app.kubernetes.io/component, operator: In, values: {{ toJson $instances }}}]
{{- end }}
{{- end }}

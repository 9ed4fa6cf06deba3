{{- /* Which processes a release runs. A process has one role, or several that share it: its name is `together` where
     that is all of them, else its roles with a plus between them. In Kubernetes that is a minus. */}}

{{- define "spojoin.topology" -}}{{ .Files.Get "files/topology.yaml" }}{{- end }}

{{- /* `--reuse-values` knows no value that is younger than the release. */}}
{{- define "spojoin.packing" -}}{{ .Values.packing | default "apart" | trim }}{{- end }}

{{- /* The groups of roles that `packing` makes, in the data's way: a YAML list of {name, component, roles}. */}}
{{- define "spojoin.groups" -}}
{{- $roles := (include "spojoin.topology" . | fromYaml).packable }}
{{- $text := include "spojoin.packing" . }}
{{- $groups := list }}
{{- if eq $text "together" }}{{ $groups = list $roles }}
{{- else if ne $text "apart" }}{{ range regexSplit "[\\s,]+" $text -1 }}{{ $groups = append $groups (splitList "+" .) }}{{ end }}
{{- end }}
{{- $named := list }}
{{- range $groups }}{{ range . }}
{{- if not (has . $roles) }}{{ fail (printf "packing: unknown role %q; expected apart, together, or groups such as router+sink of %s" . (join ", " $roles)) }}{{ end }}
{{- if has . $named }}{{ fail (printf "packing names %s twice; a role runs in one process" .) }}{{ end }}
{{- $named = append $named . }}
{{- end }}{{ end }}
{{- range $roles }}{{ if not (has . $named) }}{{ $groups = append $groups (list .) }}{{ end }}{{ end }}
{{- range $first := $roles }}
{{- range $group := $groups }}
{{- $sorted := list }}{{ range $roles }}{{ if has . $group }}{{ $sorted = append $sorted . }}{{ end }}{{ end }}
{{- if eq $first (first $sorted) }}
{{- $name := eq (len $sorted) (len $roles) | ternary "together" (join "+" $sorted) }}
- {name: {{ $name | quote }}, component: {{ replace "+" "-" $name }}, roles: {{ toJson $sorted }}}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The component that a role runs in: dict "root" $ "role" "sink" */}}
{{- define "spojoin.componentOf" -}}
{{- range include "spojoin.groups" .root | fromYamlArray }}{{ if has $.role .roles }}{{ .component }}{{ end }}{{ end }}
{{- end }}

{{- /* How many of the first PO-Join workers share a process with other roles. */}}
{{- define "spojoin.workersInside" -}}
{{- eq (include "spojoin.componentOf" (dict "root" . "role" "pojoin")) "pojoin" | ternary 0 .Values.pojoin.inside }}
{{- end }}

{{- define "spojoin.workers" -}}
{{- $inside := include "spojoin.workersInside" . | int }}
{{- .Values.pojoin.replicas | default (ternary 2 $inside (eq $inside 0)) }}
{{- end }}

{{- /* How many of them share the first frames: where a controller sets their number, those that are there in any case, or as
     many as the layout asks for. */}}
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

{{- /* All processes of roles that may share one, as a YAML list of {name, component, roles} and, of those that are
     numbered, `index`: the variable that holds a pod's number, and `start`: the first number. */}}
{{- define "spojoin.processes" -}}
{{- $inside := include "spojoin.workersInside" . | int }}
{{- range include "spojoin.groups" . | fromYamlArray }}
{{- $index := dict "pojoin" "SPOJOIN_WORKER" }}
{{- $numbered := and (hasKey $index .name) (dict "index" (get $index .name) "start" 0) }}
- {{ merge (dict) . ($numbered | default dict) | toJson }}
{{- end }}
{{- if and $inside (gt (include "spojoin.workersMax" . | int) $inside) }}
- {{ dict "name" "pojoin" "component" "pojoin" "roles" (list "pojoin") "index" "SPOJOIN_WORKER" "start" $inside | toJson }}
{{- end }}
{{- end }}

{{- /* Whether workers are numbered pods: those need the controller. */}}
{{- define "spojoin.isNumbered" -}}
{{- $found := false }}
{{- range include "spojoin.processes" . | fromYamlArray }}{{ if .index }}{{ $found = true }}{{ end }}{{ end }}
{{- $found }}
{{- end }}

{{- define "spojoin.hasController" -}}
{{- if kindIs "invalid" .Values.controller.enabled }}{{ include "spojoin.isNumbered" . }}{{ else }}{{ .Values.controller.enabled }}{{ end }}
{{- end }}

{{- /* Where roles share a process, a predictor runs only if the layout joins by its plan. */}}
{{- define "spojoin.hasPredictor" -}}
{{- if kindIs "invalid" .Values.predictor.enabled }}
{{- $isApart := true }}
{{- range include "spojoin.groups" . | fromYamlArray }}{{ if gt (len .roles) 1 }}{{ $isApart = false }}{{ end }}{{ end }}
{{- $layout := (include "spojoin.query" . | fromYaml).layout }}
{{- or $isApart (eq "sta" (toString (kindIs "map" $layout | ternary $layout (dict "name" $layout)).name)) }}
{{- else }}{{ .Values.predictor.enabled }}{{ end }}
{{- end }}

{{- /* A process's values: those of its role; what roles share has `shared`, and what `groups` says under its name. */}}
{{- define "spojoin.processValues" -}}
{{- $values := .root.Values }}
{{- if gt (len .process.roles) 1 }}{{ mergeOverwrite (deepCopy $values.shared) (get $values.groups .process.name | default dict) | toYaml }}
{{- else }}{{ get $values (eq .process.name "logical-and" | ternary "logicalAnd" .process.name) | toYaml }}
{{- end }}
{{- end }}

{{- /* The components of a process: its own and, where standbys run, theirs: dict "root" $ "component" "router" */}}
{{- define "spojoin.instances" -}}
{{- $isDoubled := false }}
{{- if .root.Values.standbys }}{{ range include "spojoin.processes" .root | fromYamlArray }}{{ if eq .component $.component }}{{ $isDoubled = true }}{{ end }}{{ end }}{{ end }}
- {{ .component }}
{{- if $isDoubled }}
- {{ .component }}-b
{{- end }}
{{- end }}

{{- /* A selector of a process's pods, those of its standby included: dict "root" $ "component" "router" */}}
{{- define "spojoin.bothSelector" -}}
{{- $instances := include "spojoin.instances" . | fromYamlArray }}
{{- if eq (len $instances) 1 -}}
matchLabels: {{ include "spojoin.selectorLabels" . | nindent 2 }}
{{- else -}}
matchLabels: {{ omit (include "spojoin.selectorLabels" . | fromYaml) "app.kubernetes.io/component" | toYaml | nindent 2 }}
matchExpressions: [{key: app.kubernetes.io/component, operator: In, values: {{ toJson $instances }}}]
{{- end }}
{{- end }}

{{- /* The settings without secrets that `readers` read, by files/topology.yaml: dict "root" $ "readers" list */}}
{{- define "spojoin.settingsOf" -}}
{{- $table := (include "spojoin.topology" .root | fromYaml).readers }}
{{- range include "spojoin.settings" .root | fromYamlArray }}
{{- $isRead := false }}
{{- range get $table (trimPrefix "SPOJOIN_" .name | lower) | default $.readers }}{{ if has . $.readers }}{{ $isRead = true }}{{ end }}{{ end }}
{{- if $isRead }}
- {{ eq .name "SPOJOIN_WORKERS" | ternary (dict "name" .name "value" (include "spojoin.workersAtFirst" $.root)) . | toJson }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The readers of settings in a process of these roles. It takes a list of roles. */}}
{{- define "spojoin.readers" -}}{{ gt (len .) 1 | ternary (append . "shared") . | toJson }}{{- end }}

{{- /* All settings without secrets; the check before an install gets them. */}}
{{- define "spojoin.settings" -}}
{{- include "spojoin.checkSettings" . }}
{{- if eq (include "spojoin.componentOf" (dict "root" . "role" "mutable")) "mutable" }}
- {name: SPOJOIN_JOINERS, value: {{ .Values.mutable.replicas | quote }}}
{{- end }}
- {name: SPOJOIN_INTAKES, value: {{ include "spojoin.intakes" . | quote }}}
- {name: SPOJOIN_WORKERS, value: {{ include "spojoin.workers" . | quote }}}
- {name: SPOJOIN_COLUMNS, value: {{ .Values.pojoin.columns | quote }}}
- {name: SPOJOIN_LOGICAL_ANDS, value: {{ include "spojoin.logicalAnds" . | quote }}}
- {name: SPOJOIN_SINKS, value: {{ include "spojoin.sinks" . | quote }}}
- {name: SPOJOIN_COLUMNS_BY, value: {{ .Values.pojoin.columnsBy | quote }}}
- {name: SPOJOIN_WORKERS_MAX, value: {{ include "spojoin.workersMax" . | quote }}}
{{- with include "spojoin.packing" . }}
{{- if ne . "apart" }}
- {name: SPOJOIN_PACKING, value: {{ . | quote }}}
{{- with include "spojoin.workersInside" $ | int }}
- {name: SPOJOIN_WORKERS_INSIDE, value: {{ . | quote }}}
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.standbys }}
{{ include "spojoin.variables" (dict "standbys" .Values.standbys "patience_ms" .Values.patienceMs) }}
{{- end }}
- {name: SPOJOIN_OWNER, value: {{ printf "%s/%s" .Release.Namespace .Release.Name | quote }}}
{{- $query := include "spojoin.queryValue" . | fromYaml }}
{{- with $query.adopt }}
- {name: SPOJOIN_ADOPT, value: {{ . | quote }}}
{{- end }}
{{- /* Always named: an apply keeps a variable that its manifest leaves out, and would go on allowing a replacement. */}}
- {name: SPOJOIN_REPLACE, value: {{ $query.replace | default false | quote }}}
{{- with $query.backfill }}
- {name: SPOJOIN_BACKFILL, value: {{ . | quote }}}
{{- end }}
{{- if and .Values.demo.enabled (not (hasKey .Values.settings "results_bytes_max")) }}
- {name: SPOJOIN_RESULTS_BYTES_MAX, value: {{ include "spojoin.resultsBytesMax" . | quote }}}
{{- end }}
{{- with .Values.topics.config }}
- {name: SPOJOIN_TOPICS, value: {{ toJson . | quote }}}
{{- end }}
{{- with .Values.schemaRegistry }}
{{- if .url }}
- {name: SPOJOIN_REGISTRY_URL, value: {{ .url | quote }}}
{{- if .tlsSecret }}
- {name: SPOJOIN_REGISTRY_CA, value: /etc/spojoin/registry/ca.crt}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.settings }}
{{ include "spojoin.variables" . }}
{{- end }}
{{- end }}

{{- define "spojoin.variables" -}}
{{- range $name, $value := . }}
- {name: SPOJOIN_{{ upper $name }}, value: {{ kindIs "float64" $value | ternary (toJson $value) (toString $value) | quote }}}
{{- end }}
{{- end }}

{{- /* These settings follow from other values. Under `settings`, they would contradict these or have no effect. */}}
{{- define "spojoin.checkSettings" -}}
{{- $instead := dict
  "query_file" "query" "bootstrap_servers" "kafka.bootstrapServers" "joiners" "mutable.replicas" "logical_ands" "logicalAnd.replicas"
  "sinks" "sink.replicas" "intakes" "intake.replicas" "workers" "pojoin.replicas"
  "workers_max" "pojoin.maxReplicas" "columns" "pojoin.columns" "columns_by" "pojoin.columnsBy" "autoscale" "controller.autoscale.enabled"
  "scale_once" "pojoin.replicas"
  "scale_min" "controller.autoscale.minReplicas"
  "scale_max" "controller.autoscale.maxReplicas" "drain_ms" "terminationGracePeriodSeconds"
  "topics" "topics.config" "packing" "packing" "workers_inside" "pojoin.inside" "standbys" "standbys" "patience_ms" "patienceMs"
  "replace" "query.replace" "backfill" "query.backfill" "adopt" "query.adopt"
  "registry_url" "schemaRegistry.url" "registry_username" "schemaRegistry.username" "registry_ca" "schemaRegistry.tlsSecret" }}
{{- range $name, $_ := .Values.settings }}
{{- with get $instead (lower $name) }}
{{- fail (printf "settings.%s is set by the chart itself: set %s instead" $name .) }}
{{- end }}
{{- if has (lower $name) (list "intake" "joiner" "worker" "logical_and" "sink" "instance" "metrics_port" "statefulset" "namespace" "owner") }}
{{- fail (printf "settings.%s is set by the chart itself: remove it" $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "spojoin.checkRegistry" -}}
{{- with .Values.schemaRegistry }}
{{- if and (or .username .existingSecret .tlsSecret) (not .url) }}
{{- fail "schemaRegistry.url is empty: name the registry, or remove the other values of schemaRegistry" }}
{{- end }}
{{- if ne (empty .username) (empty .existingSecret) }}
{{- fail "schemaRegistry.username and schemaRegistry.existingSecret belong together: set both or none" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "spojoin.scaling" -}}
{{- with .Values.controller.autoscale -}}
- {name: SPOJOIN_AUTOSCALE, value: {{ .enabled | quote }}}
{{- if ne (include "spojoin.usesKeda" $) "true" }}
- {name: SPOJOIN_SCALE_ONCE, value: {{ include "spojoin.workers" $ | quote }}}
{{- end }}
- {name: SPOJOIN_SCALE_MIN, value: {{ .minReplicas | quote }}}
- {name: SPOJOIN_SCALE_MAX, value: {{ .maxReplicas | default (include "spojoin.workersMax" $) | quote }}}
{{- end }}
{{- end }}

{{- /* The Secrets that a process reads, as sources of a volume. A service ends when one of these files changes. Kubernetes
     then starts it with the new content, in variables too: dict "root" $ "user" "page" "readers" list "values" <the role's values> */}}
{{- define "spojoin.secretSources" -}}
{{- $values := .root.Values }}
{{- $named := list }}
{{- with $values.kafka.existingSecret }}{{ $named = append $named (dict "name" . "key" "properties.json") }}{{ end }}
{{- with $values.kafka.users }}{{ if .existingSecret }}{{ $named = append $named (dict "name" (include "spojoin.ofUser" (merge (dict "text" .existingSecret) $)) "key" .passwordKey) }}{{ end }}{{ end }}
{{- with $values.redis }}{{ if .existingSecret }}{{ $named = append $named (dict "name" .existingSecret "key" (default "url" .passwordKey)) }}{{ end }}{{ end }}
{{- with $values.schemaRegistry }}{{ if and .existingSecret (include "spojoin.readsRegistry" $) }}{{ $named = append $named (dict "name" .existingSecret "key" .passwordKey) }}{{ end }}{{ end }}
{{- range concat $values.extraEnv (default list .values.extraEnv) }}
{{- with (default dict .valueFrom).secretKeyRef }}{{ $named = append $named (pick . "name" "key" "optional") }}{{ end }}
{{- end }}
{{- range uniq $named }}
- secret: {{ merge (dict "items" (list (dict "key" .key "path" (printf "%s.%s" .name .key)))) (omit . "key") | toJson }}
{{- end }}
{{- end }}
{{- define "spojoin.readsRegistry" -}}{{ if or (has "intake" .readers) (has "router" .readers) (has "sink" .readers) (has "page" .readers) }}true{{ end }}{{- end }}

{{- define "spojoin.secretsEnv" -}}
{{- $folders := list }}
{{- if include "spojoin.secretSources" . }}{{ $folders = append $folders "/etc/spojoin/secrets" }}{{ end }}
{{- range $name := list "kafka" "redis" }}{{ if (get $.root.Values $name).tlsSecret }}{{ $folders = append $folders (printf "/etc/spojoin/%s" $name) }}{{ end }}{{ end }}
{{- if and .root.Values.schemaRegistry.tlsSecret (include "spojoin.readsRegistry" .) }}{{ $folders = append $folders "/etc/spojoin/registry" }}{{ end }}
{{- with $folders }}
- {name: SPOJOIN_SECRETS_FOLDERS, value: {{ toJson . | quote }}}
{{- end }}
{{- end }}

{{- define "spojoin.secretsMount" -}}
{{- if include "spojoin.secretSources" . }}
- {name: secrets, mountPath: /etc/spojoin/secrets, readOnly: true}
{{- end }}
{{- end }}

{{- define "spojoin.secretsVolume" -}}
{{- with include "spojoin.secretSources" . }}
- name: secrets
  projected:
    sources: {{ . | nindent 6 }}
{{- end }}
{{- end }}

{{- /* Settings without secrets: for every service, and for the check before an install. */}}
{{- define "spojoin.settings" -}}
{{- include "spojoin.checkSettings" . }}
- {name: SPOJOIN_JOINERS, value: {{ .Values.mutable.replicas | quote }}}
- {name: SPOJOIN_WORKERS, value: {{ include "spojoin.workers" . | quote }}}
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
{{- if $query.replace }}
- {name: SPOJOIN_REPLACE, value: "true"}
{{- end }}
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

{{- /* Settings by name, as variables. */}}
{{- define "spojoin.variables" -}}
{{- range $name, $value := . }}
- {name: SPOJOIN_{{ upper $name }}, value: {{ kindIs "float64" $value | ternary (toJson $value) (toString $value) | quote }}}
{{- end }}
{{- end }}

{{- /* Settings that follow from other values would contradict them, or have no effect. */}}
{{- define "spojoin.checkSettings" -}}
{{- $instead := dict
  "query_file" "query" "bootstrap_servers" "kafka.bootstrapServers" "joiners" "mutable.replicas" "workers" "pojoin.replicas"
  "workers_max" "pojoin.maxReplicas" "autoscale" "controller.autoscale.enabled" "scale_min" "controller.autoscale.minReplicas"
  "scale_max" "controller.autoscale.maxReplicas" "drain_ms" "terminationGracePeriodSeconds"
  "topics" "topics.config" "packing" "packing" "workers_inside" "pojoin.inside" "standbys" "standbys" "patience_ms" "patienceMs"
  "replace" "query.replace" "backfill" "query.backfill" "adopt" "query.adopt"
  "registry_url" "schemaRegistry.url" "registry_username" "schemaRegistry.username" "registry_ca" "schemaRegistry.tlsSecret" }}
{{- range $name, $_ := .Values.settings }}
{{- with get $instead (lower $name) }}
{{- fail (printf "settings.%s is set by the chart itself: set %s instead" $name .) }}
{{- end }}
{{- if has (lower $name) (list "joiner" "worker" "instance" "metrics_port" "statefulset" "namespace" "owner") }}
{{- fail (printf "settings.%s is set by the chart itself: remove it" $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What is set of a schema registry must be whole. */}}
{{- define "spojoin.checkRegistry" -}}
{{- with .Values.schemaRegistry }}
{{- if and (or .username .existingSecret .tlsSecret) (not .url) }}
{{- fail "schemaRegistry.url is empty: name the registry, or remove what else is set of it" }}
{{- end }}
{{- if ne (empty .username) (empty .existingSecret) }}
{{- fail "schemaRegistry.username and schemaRegistry.existingSecret belong together: set both or none" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The controller's limits. */}}
{{- define "spojoin.scaling" -}}
{{- with .Values.controller.autoscale -}}
- {name: SPOJOIN_AUTOSCALE, value: {{ .enabled | quote }}}
- {name: SPOJOIN_SCALE_MIN, value: {{ .minReplicas | quote }}}
- {name: SPOJOIN_SCALE_MAX, value: {{ .maxReplicas | default (include "spojoin.workersMax" $) | quote }}}
{{- end }}
{{- end }}

{{- /* The query's options, from which templates name topics and rights. The check before an install verifies these names. */}}
{{- define "spojoin.queryOptions" -}}
{{- $options := include "spojoin.query" . | fromYaml }}
{{- with $options.Error }}{{ fail (printf "query is not YAML: %s" .) }}{{ end }}
{{- if not (kindIs "map" $options.streams) }}{{ fail "query has no streams: give the query file with --set-file query.text=query.yaml" }}{{ end }}
{{- toYaml $options }}
{{- end }}

{{- define "spojoin.queryName" -}}
{{- $query := include "spojoin.queryOptions" . | fromYaml }}
{{- if not $query.name }}{{ fail "query has no name: give the query file with --set-file query.text=query.yaml" }}{{ end }}
{{- $query.name }}
{{- end }}

{{- /* A YAML list: the input topics in the order of the streams' names, then the tables' topics. */}}
{{- define "spojoin.inputTopics" -}}
{{- $named := get .Values.settings "input_topics" | default "{}" | fromJson }}
{{- range $stream, $options := (include "spojoin.queryOptions" . | fromYaml).streams }}
{{- $own := printf "in.%s" $stream }}
{{- if kindIs "map" $options }}{{ with $options.query }}{{ $own = printf "%s.results" . }}{{ end }}{{ end }}
- {{ get $named $stream | default $own | quote }}
{{- end }}
{{- range $table, $options := (include "spojoin.queryOptions" . | fromYaml).tables }}
{{- if kindIs "map" $options }}{{ with $options.topic }}
- {{ get $named $table | default . | quote }}
{{- end }}{{ end }}
{{- end }}
{{- end }}

{{- /* A YAML list: a name with {query} and {input} filled in, once for each input if it holds {input}: dict "root" $ "name" … */}}
{{- define "spojoin.names" -}}
{{- $name := replace "{query}" (include "spojoin.queryName" .root) .name }}
{{- if contains "{input}" $name }}
{{- range $topic := include "spojoin.inputTopics" .root | fromYamlArray }}
- {{ replace "{input}" $topic $name | quote }}
{{- end }}
{{- else }}
- {{ $name | quote }}
{{- end }}
{{- end }}

{{- /* The bytes of results and of dead letters that Kafka keeps; empty for all. */}}
{{- define "spojoin.resultsBytesMax" -}}
{{- if hasKey .Values.settings "results_bytes_max" }}{{ int64 .Values.settings.results_bytes_max }}{{ else if .Values.demo.enabled }}268435456{{ end }}
{{- end }}

{{- /* The configuration of a kind of topic, equal to the services': later sources take precedence. dict "root" $ "defaults" … "kind" … */}}
{{- define "spojoin.topicConfig" -}}
{{- $values := .root.Values }}
{{- $limit := dict }}
{{- if has .kind (list "results" "dlq") }}
{{- with include "spojoin.resultsBytesMax" .root }}{{ $limit = dict "retention.bytes" . }}{{ end }}
{{- end }}
{{- $given := $values.topics.config }}
{{- $own := mergeOverwrite (dict) (get .defaults .kind) (get $given "all" | default dict) $limit (get $given .kind | default dict) $values.strimzi.topics.config }}
{{- range $name, $value := $own }}
{{ $name }}: {{ kindIs "float64" $value | ternary (toJson $value) (toString $value) | quote }}
{{- end }}
{{- end }}

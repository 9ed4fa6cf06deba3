{{- /* The query's names, for what creates topics and rights in place of the program; the install's check has the last word. */}}
{{- define "spojoin.queryOptions" -}}
{{- $options := include "spojoin.query" . | fromYaml }}
{{- with $options.Error }}{{ fail (printf "query is no YAML: %s" .) }}{{ end }}
{{- if not (kindIs "map" $options.streams) }}{{ fail "query has no streams: give the query file with --set-file query.text=query.yaml" }}{{ end }}
{{- toYaml $options }}
{{- end }}

{{- define "spojoin.queryName" -}}
{{- $query := include "spojoin.queryOptions" . | fromYaml }}
{{- if not $query.name }}{{ fail "query has no name: give the query file with --set-file query.text=query.yaml" }}{{ end }}
{{- $query.name }}
{{- end }}

{{- /* Input topics, a YAML list in the order of the streams' names, and the topic of a table. */}}
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

{{- /* A name of the table, in which {query} and {input} stand: a YAML list, with one name for each input: dict "root" $ "name" … */}}
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

{{- /* How much of the results and of the dead letters to keep; empty for all. */}}
{{- define "spojoin.resultsBytesMax" -}}
{{- if hasKey .Values.settings "results_bytes_max" }}{{ int64 .Values.settings.results_bytes_max }}{{ else if .Values.demo.enabled }}268435456{{ end }}
{{- end }}

{{- /* How a kind of topic is kept, as the services keep it: what is said last counts. dict "root" $ "defaults" … "kind" … */}}
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

{{- /* The servers that each component's pods reach, and the port that they serve. */}}
{{- define "spojoin.reach" -}}
{{- $table := (include "spojoin.topology" . | fromYaml).roles }}
{{- $processes := include "spojoin.processes" . | fromYamlArray }}
{{- if eq (include "spojoin.hasPredictor" .) "true" }}{{ $processes = append $processes (dict "component" "predictor" "roles" (list "predictor")) }}{{ end }}
{{- if eq (include "spojoin.hasController" .) "true" }}{{ $processes = append $processes (dict "component" "controller" "roles" (list "controller")) }}{{ end }}
{{- range $process := $processes }}
{{- $kafka := false }}{{ $redis := false }}{{ $kubernetes := false }}
{{- range $process.roles }}
{{- $role := get $table . }}
{{- $kafka = or $kafka (not (empty (concat $role.reads $role.writes))) }}{{ $redis = or $redis $role.redis }}{{ $kubernetes = or $kubernetes $role.kubernetes }}
{{- end }}
{{ $process.component }}: {kafka: {{ $kafka }}, redis: {{ $redis }}, kubernetes: {{ $kubernetes }}, registry: {{ and (eq (include "spojoin.usesRegistry" $process) "true") (not (empty $.Values.schemaRegistry.url)) }}, port: 8080}
{{- end }}
# The check asks Kafka for the served query. In an upgrade, the old release's policies still apply.
check-query: {kafka: true}
{{- if .Values.page.enabled }}
page: {kafka: true, redis: true, registry: {{ not (empty .Values.schemaRegistry.url) }}, port: 8080}
{{- end }}
{{- if eq (include "spojoin.makesTopics" .) "true" }}
topics: {kafka: true}
{{- end }}
{{- $asksRedis := and (not .Values.demo.enabled) (eq (include "spojoin.hasRedis" .) "true") }}
test: {kafka: {{ not $asksRedis }}, redis: {{ $asksRedis }}}
{{- if .Values.demo.enabled }}
{{- if .Values.demo.load }}
load: {kafka: true}
{{- end }}
{{- end }}
{{- if .Values.backfill.enabled }}
# Histories and results may be anywhere. Executors and their driver talk to each other.
backfill: {kafka: true, anywhere: true, peers: {{ .Values.backfill.operator }}}
{{- end }}
{{- range $name, $job := .Values.jobs }}
{{- if $job.enabled }}
job-{{ $name }}: {kafka: true, redis: {{ has $name (list "check" "chaos") }}, kubernetes: {{ eq $name "chaos" }}}
{{- end }}
{{- end }}
{{- end }}

{{- define "spojoin.usesDevKafka" -}}{{ and (eq (include "spojoin.devKafka" .) "true") (not .Values.kafka.bootstrapServers) }}{{- end }}
{{- define "spojoin.usesDevRedis" -}}{{ and (eq (include "spojoin.devRedis" .) "true") (not .Values.redis.url) }}{{- end }}

{{- /* The pods that the development broker serves, in words. */}}
{{- define "spojoin.devKafkaServes" -}}
{{- $namespaces := .Values.devKafka.servesNamespaces }}
{{- if or (not .Values.networkPolicy.enabled) (has "*" $namespaces) }}every pod of the cluster
{{- else if $namespaces }}the pods of this release and of the {{ len $namespaces | plural "namespace" "namespaces" }} {{ join ", " $namespaces }}
{{- else }}the pods of this release only (devKafka.servesNamespaces adds others)
{{- end }}
{{- end }}

{{- /* The egress rules of a component: dict "root" $ "needs" <its entry above> */}}
{{- define "spojoin.egress" -}}
{{- $policy := .root.Values.networkPolicy }}
{{- if .needs.anywhere }}
- {}
{{- else }}
{{- if or .needs.kafka .needs.redis .needs.kubernetes }}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
{{- end }}
{{- if .needs.kafka }}
{{ include "spojoin.server" (dict "root" .root "server" "kafka" "isInside" (eq (include "spojoin.usesDevKafka" .root) "true") "port" 9092 "ports" $policy.kafkaPorts "cidrs" $policy.kafkaCidrs) }}
{{- end }}
{{- if .needs.redis }}
{{ include "spojoin.server" (dict "root" .root "server" "redis" "isInside" (eq (include "spojoin.usesDevRedis" .root) "true") "port" 6379 "ports" $policy.redisPorts "cidrs" $policy.redisCidrs) }}
{{- end }}
{{- if .needs.registry }}
{{ include "spojoin.server" (dict "root" .root "isInside" false "ports" $policy.registryPorts "cidrs" $policy.registryCidrs) }}
{{- end }}
{{- if .needs.kubernetes }}
{{ include "spojoin.server" (dict "root" .root "isInside" false "ports" $policy.kubernetesPorts "cidrs" $policy.kubernetesCidrs) }}
{{- end }}
{{- if or .needs.kafka .needs.redis }}
{{- with $policy.extraEgress }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* One rule: to the pods of the chart's own server, otherwise to ports anywhere or within the named networks. */}}
{{- define "spojoin.server" -}}
{{- if .isInside -}}
- ports: [{port: {{ .port }}, protocol: TCP}]
  to: [{podSelector: {matchLabels: {{ include "spojoin.selectorLabels" (dict "root" .root "component" .server) | fromYaml | toJson }}}}]
{{- else -}}
- ports:
    {{- range .ports }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
  {{- with .cidrs }}
  to:
    {{- range . }}
    - ipBlock: {cidr: {{ . }}}
    {{- end }}
  {{- end }}
{{- end }}
{{- end }}

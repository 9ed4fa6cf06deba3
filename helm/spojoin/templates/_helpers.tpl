{{- define "spojoin.name" -}}spojoin{{- end }}

{{- define "spojoin.fullname" -}}
{{- if contains "spojoin" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-spojoin" .Release.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- /* Labels of a component: dict "root" $ "component" "router" */}}
{{- define "spojoin.selectorLabels" -}}
app.kubernetes.io/name: {{ include "spojoin.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- /* Pods' labels hold no version, so an upgrade that renders a pod as before doesn't restart it. */}}
{{- define "spojoin.podLabels" -}}
{{ include "spojoin.selectorLabels" . }}
app.kubernetes.io/part-of: spojoin
{{- end }}

{{- define "spojoin.labels" -}}
{{ include "spojoin.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: spojoin
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "spojoin.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "spojoin.fullname" .) .Values.serviceAccount.name }}{{ else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "spojoin.devKafka" -}}{{ if kindIs "invalid" .Values.devKafka.enabled }}{{ .Values.demo.enabled }}{{ else }}{{ .Values.devKafka.enabled }}{{ end }}{{- end }}
{{- /* The name that the broker gives to its clients; pods of all namespaces can resolve it. */}}
{{- define "spojoin.devKafkaHost" -}}{{ include "spojoin.fullname" . }}-kafka.{{ .Release.Namespace }}.svc{{- end }}
{{- define "spojoin.devRedis" -}}{{ if kindIs "invalid" .Values.devRedis.enabled }}{{ .Values.demo.enabled }}{{ else }}{{ .Values.devRedis.enabled }}{{ end }}{{- end }}

{{- /* The query's value as a map; a query that is plain text replaces no other. */}}
{{- define "spojoin.queryValue" -}}
{{- if kindIs "map" .Values.query }}{{ toYaml .Values.query }}{{ else }}{{ dict "text" .Values.query | toYaml }}{{ end }}
{{- end }}

{{- define "spojoin.query" -}}
{{- $value := include "spojoin.queryValue" . | fromYaml }}
{{- if $value.text }}{{ $value.text }}
{{- else if .Values.demo.enabled }}{{ .Files.Get "files/demo-query.yaml" }}
{{- else }}{{ fail "query is empty: give the query file with --set-file query.text=query.yaml, or try --set demo.enabled=true" }}
{{- end }}
{{- end }}

{{- /* A YAML map: the query file, the files of queries whose results it reads, and its tables. */}}
{{- define "spojoin.queryFiles" -}}
query.yaml: {{ include "spojoin.query" . | quote }}
{{- range $name, $text := (include "spojoin.queryValue" . | fromYaml).others }}
{{- if eq $name "query" }}{{ fail "query.others.query would overwrite the file of the query itself: expected another name for that query" }}{{ end }}
{{ printf "%s.yaml" $name | quote }}: {{ $text | quote }}
{{- end }}
{{- range $name, $text := (include "spojoin.queryValue" . | fromYaml).tables }}
{{- if hasSuffix ".yaml" $name }}{{ fail (printf "query.tables: %s has the file name of a query: expected CSV or JSON lines, for example tiers.csv" $name) }}{{ end }}
{{ $name | quote }}: {{ $text | quote }}
{{- end }}
{{- end }}

{{- /* A digest of the query and the queries whose results it reads; every process reads them. */}}
{{- define "spojoin.queryDigest" -}}
{{- $texts := include "spojoin.query" . }}
{{- range (include "spojoin.queryValue" . | fromYaml).others }}{{ $texts = cat $texts . }}{{ end }}
{{- sha256sum $texts }}
{{- end }}

{{- /* A digest of the tables' files, which only the router reads; empty without tables. */}}
{{- define "spojoin.tablesDigest" -}}
{{- with (include "spojoin.queryValue" . | fromYaml).tables }}{{ toJson . | sha256sum }}{{ end }}
{{- end }}

{{- define "spojoin.bootstrap" -}}
{{- if .Values.kafka.bootstrapServers }}{{ .Values.kafka.bootstrapServers }}
{{- else if eq (include "spojoin.devKafka" .) "true" }}{{ include "spojoin.fullname" . }}-kafka:9092
{{- else }}{{ fail "kafka.bootstrapServers is empty: name the brokers as host:port, or try --set demo.enabled=true" }}
{{- end }}
{{- end }}

{{- define "spojoin.redisUrl" -}}
{{- if .Values.redis.url }}{{ .Values.redis.url }}
{{- else if eq (include "spojoin.devRedis" .) "true" }}redis://{{ include "spojoin.fullname" . }}-redis:6379/0
{{- end }}
{{- end }}

{{- define "spojoin.pagePath" -}}{{ .Values.page.path | trimSuffix "/" | default "/" }}{{- end }}
{{- define "spojoin.hasRedis" -}}{{ or (not (empty .Values.redis.existingSecret)) (not (empty (include "spojoin.redisUrl" .))) }}{{- end }}

{{- define "spojoin.image" -}}{{ include "spojoin.reference" (dict "root" . "image" .Values.image) }}{{- end }}
{{- define "spojoin.devImage" -}}{{ include "spojoin.reference" (dict "root" . "image" .Values.devImage) }}{{- end }}
{{- define "spojoin.sparkImage" -}}{{ include "spojoin.reference" (dict "root" . "image" .Values.sparkImage) }}{{- end }}
{{- define "spojoin.reference" -}}
{{ .image.repository }}{{ if .image.digest }}@{{ .image.digest }}{{ else }}:{{ default .root.Chart.AppVersion .image.tag }}{{ end }}
{{- end }}

{{- define "spojoin.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "spojoin.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* Hooks' pods may run while the release's account doesn't exist; they prefer no node. */}}
{{- define "spojoin.hookPod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext: {{ include "spojoin.podSecurityContext" . | nindent 2 }}
{{- include "spojoin.tolerations" (dict "root" . "values" dict) }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* All settings, for jobs. */}}
{{- define "spojoin.env" -}}
{{ include "spojoin.connections" . | trim }}
{{ include "spojoin.settings" . | trim }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The settings that a process reads: dict "root" $ "readers" list */}}
{{- define "spojoin.envOf" -}}
{{ include "spojoin.connections" .root | trim }}
{{ include "spojoin.settingsOf" . | trim }}
{{- with .root.Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Settings that every program reads. */}}
{{- define "spojoin.connections" -}}
- {name: SPOJOIN_QUERY_FILE, value: /etc/spojoin/query/query.yaml}
- {name: SPOJOIN_BOOTSTRAP_SERVERS, value: {{ include "spojoin.bootstrap" . | quote }}}
{{- if .Values.kafka.existingSecret }}
- name: SPOJOIN_KAFKA
  valueFrom: {secretKeyRef: {name: {{ .Values.kafka.existingSecret }}, key: properties.json}}
{{- else if .Values.kafka.properties }}
- {name: SPOJOIN_KAFKA, value: {{ toJson .Values.kafka.properties | quote }}}
{{- end }}
{{- if and .Values.redis.passwordKey (not .Values.redis.existingSecret) }}
{{- fail "redis.passwordKey is set without redis.existingSecret: name the Secret that holds the password" }}
{{- end }}
{{- if and .Values.redis.username (not .Values.redis.passwordKey) }}
{{- fail "redis.username is set without redis.passwordKey: name the key of its password in redis.existingSecret" }}
{{- end }}
{{- if .Values.redis.passwordKey }}
- {name: SPOJOIN_REDIS_URL, value: {{ required "redis.url is empty: redis.existingSecret holds only the password" (include "spojoin.redisUrl" .) | quote }}}
{{- with .Values.redis.username }}
- {name: SPOJOIN_REDIS_USERNAME, value: {{ . | quote }}}
{{- end }}
- name: SPOJOIN_REDIS_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .Values.redis.existingSecret }}, key: {{ .Values.redis.passwordKey }}}}
{{- else if .Values.redis.existingSecret }}
- name: SPOJOIN_REDIS_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.redis.existingSecret }}, key: url}}
{{- else if include "spojoin.redisUrl" . }}
- {name: SPOJOIN_REDIS_URL, value: {{ include "spojoin.redisUrl" . | quote }}}
{{- end }}
{{- include "spojoin.checkRegistry" . }}
{{- end }}

{{- /* A component's login at Kafka, and at the schema registry if it reaches that: dict "root" $ "user" "router-sink", and
     "roles" if it has any */}}
{{- define "spojoin.login" -}}
{{- $users := .root.Values.kafka.users }}
{{- if $users.existingSecret -}}
{{- $secret := include "spojoin.ofUser" (merge (dict "text" $users.existingSecret) .) -}}
- {name: SPOJOIN_KAFKA_USERNAME, value: {{ include "spojoin.ofUser" (merge (dict "text" (default $users.existingSecret $users.name)) .) | quote }}}
- name: SPOJOIN_KAFKA_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ $secret | quote }}, key: {{ $users.passwordKey }}}}
{{- end }}
{{- with .root.Values.schemaRegistry }}
{{- if and .username (or (eq $.user "page") (eq (include "spojoin.usesRegistry" $) "true")) }}
- {name: SPOJOIN_REGISTRY_USERNAME, value: {{ .username | quote }}}
- name: SPOJOIN_REGISTRY_PASSWORD
  valueFrom: {secretKeyRef: {name: {{ .existingSecret | quote }}, key: {{ .passwordKey }}}}
{{- end }}
{{- end }}
{{- end }}
{{- define "spojoin.usesRegistry" -}}{{ or (has "intake" .roles) (has "router" .roles) (has "sink" .roles) }}{{- end }}
{{- define "spojoin.ofUser" -}}{{ .text | replace "{user}" .user | replace "{fullname}" (include "spojoin.fullname" .root) }}{{- end }}

{{- define "spojoin.volumes" -}}{{ include "spojoin.volumesWith" (dict "root" . "tmpSize" .Values.tmpSize) }}{{- end }}

{{- /* dict "root" $ "tmpSize" "256Mi", and "query": the end of the name of the query's ConfigMap, by default "query" */}}
{{- define "spojoin.volumesWith" -}}
- name: query
  configMap: {name: {{ include "spojoin.fullname" .root }}-{{ default "query" .query }}}
- name: tmp
  emptyDir: {sizeLimit: {{ .tmpSize }}}
{{- with .root.Values.kafka.tlsSecret }}
- name: kafka-tls
  secret: {secretName: {{ . }}}
{{- end }}
{{- with .root.Values.redis.tlsSecret }}
- name: redis-tls
  secret: {secretName: {{ . }}}
{{- end }}
{{- with .root.Values.schemaRegistry.tlsSecret }}
- name: registry-tls
  secret: {secretName: {{ . }}}
{{- end }}
{{- with .root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "spojoin.volumeMounts" -}}
- {name: query, mountPath: /etc/spojoin/query, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- if .Values.kafka.tlsSecret }}
- {name: kafka-tls, mountPath: /etc/spojoin/kafka, readOnly: true}
{{- end }}
{{- if .Values.redis.tlsSecret }}
- {name: redis-tls, mountPath: /etc/spojoin/redis, readOnly: true}
{{- end }}
{{- if .Values.schemaRegistry.tlsSecret }}
- {name: registry-tls, mountPath: /etc/spojoin/registry, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The tolerations, with the time that a pod stays on a lost node: dict "root" $ "values" <the role's values> */}}
{{- define "spojoin.tolerations" -}}
{{- $asked := default .root.Values.tolerations .values.tolerations }}
tolerations:
{{- with $asked }}
{{ toYaml . | indent 2 }}
{{- end }}
{{- range $key := list "node.kubernetes.io/not-ready" "node.kubernetes.io/unreachable" }}
{{- $isSet := false }}
{{- range $asked }}{{ if eq (default "" .key) $key }}{{ $isSet = true }}{{ end }}{{ end }}
{{- if not $isSet }}
  - {key: {{ $key }}, operator: Exists, effect: NoExecute, tolerationSeconds: {{ $.root.Values.nodeLossSeconds }}}
{{- end }}
{{- end }}
{{- end }}

{{- /* The two instances of a process, or of a numbered pod, prefer different nodes. */}}
{{- define "spojoin.antiAffinity" -}}
{{- $both := dict "root" .root "component" .process.component }}
{{- if gt (len (include "spojoin.instances" $both | fromYamlArray)) 1 -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector: {{ include "spojoin.bothSelector" $both | nindent 10 }}
        {{- if and (or .process.index .number) (semverCompare ">=1.31.0-0" .root.Capabilities.KubeVersion.Version) }}
        matchLabelKeys: [{{ if .number }}{{ .label }}{{ else }}apps.kubernetes.io/pod-index{{ end }}]
        {{- end }}
{{- end }}
{{- end }}

{{- /* The nodes on which a pod may run: dict "root" $ "values" <the role's values> "component" … */}}
{{- define "spojoin.placement" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with (default .root.Values.nodeSelector .values.nodeSelector) }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- include "spojoin.tolerations" . }}
{{- $affinity := default .root.Values.affinity .values.affinity }}
{{- if .process }}{{ $affinity = mergeOverwrite (include "spojoin.antiAffinity" . | fromYaml) (deepCopy $affinity) }}{{ end }}
{{- with $affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with (default .root.Values.priorityClassName .values.priorityClassName) }}
priorityClassName: {{ . }}
{{- end }}
topologySpreadConstraints:
{{- with .root.Values.topologySpreadConstraints }}
{{ toYaml . | indent 2 }}
{{- else }}
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{ include "spojoin.selectorLabels" . | nindent 8 }}
{{- end }}
{{- end }}

{{- /* The pod of a process: dict "root" $ "process" <one of spojoin.processes> "component" "router" or "router-b" "values" … */}}
{{- define "spojoin.pod" -}}
{{- $readers := include "spojoin.readers" .process.roles | fromJsonArray }}
{{- $reading := dict "root" .root "user" .process.component "readers" $readers "values" .values }}
metadata:
  labels:
    {{- include "spojoin.podLabels" . | nindent 4 }}
    {{- if .number }}
    {{ .label }}: {{ .number | quote }}
    {{- end }}
    {{- with .root.Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    {{- /* Only the router restarts for a changed query; the others follow its announcement, unless the name changes. */}}
    {{- if has "router" .process.roles }}
    checksum/query: {{ include "spojoin.queryDigest" .root }}
    {{- with include "spojoin.tablesDigest" .root }}
    checksum/tables: {{ . }}
    {{- end }}
    {{- else }}
    query: {{ (include "spojoin.query" .root | fromYaml).name | quote }}
    {{- end }}
    {{- with .root.Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "spojoin.serviceAccountName" .root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  {{- if .root.Values.shareProcessNamespace }}
  shareProcessNamespace: true
  {{- end }}
  terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
  securityContext: {{ include "spojoin.podSecurityContext" .root | nindent 4 }}
  {{- include "spojoin.placement" . | nindent 2 }}
  containers:
    - name: {{ .component }}
      image: {{ include "spojoin.image" .root }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args: [service, {{ .process.name }}]
      securityContext: {{ include "spojoin.containerSecurityContext" .root | nindent 8 }}
      env:
        {{- include "spojoin.envOf" $reading | nindent 8 }}
        {{- with include "spojoin.secretsEnv" $reading }}{{ . | nindent 8 }}{{ end }}
        {{- with include "spojoin.login" (dict "root" .root "user" .process.component "roles" .process.roles) }}{{ . | nindent 8 }}{{ end }}
        {{- if ne .component .process.component }}
        {{- include "spojoin.variables" (dict "instance" "b") | nindent 8 }}
        {{- end }}
        {{- if has "pojoin" .process.roles }}
        # A removed worker continues until no frame waits for it. In an upgrade, it continues while other pods start.
        - {name: SPOJOIN_DRAIN_MS, value: {{ mul 1000 (min 20 (max 1 (sub .root.Values.terminationGracePeriodSeconds 10))) | quote }}}
        {{- end }}
        {{- if .number }}
        - {name: SPOJOIN_{{ .label | replace "-" "_" | upper }}, value: {{ .number | quote }}}
        {{- end }}
        {{- with .process.index }}
        - name: {{ . }}
          valueFrom: {fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}}
        {{- end }}
        {{- with .values.extraEnv }}{{ toYaml . | nindent 8 }}{{ end }}
      ports: [{name: metrics, containerPort: 8080}]
      startupProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 1
        failureThreshold: 120
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
        periodSeconds: 2
        timeoutSeconds: 5
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 10
        timeoutSeconds: 10
        failureThreshold: 3
      resources: {{ toYaml .values.resources | nindent 8 }}
      volumeMounts:
        {{- include "spojoin.volumeMounts" .root | nindent 8 }}
        {{- include "spojoin.secretsMount" $reading | nindent 8 }}
  volumes:
    {{- include "spojoin.volumes" .root | nindent 4 }}
    {{- include "spojoin.secretsVolume" $reading | nindent 4 }}
{{- end }}

{{- /* Each takes dict "root" $ "component" "backfill" "values" .Values.backfill */}}

{{- /* The arguments of `spojoin backfill`, without Spark's master. */}}
{{- define "spojoin.backfillArguments" -}}
{{- $values := .values }}
{{- if not $values.from }}{{ fail "backfill.from is empty: give the path of each stream's history, by its name" }}{{ end }}
{{- if not $values.output }}{{ fail "backfill.output is empty: name the folder of results" }}{{ end }}
- backfill
- /etc/spojoin/query/query.yaml
{{- range $stream, $path := $values.from }}
- {{ printf "--from=%s=%s" $stream $path | quote }}
{{- end }}
- {{ printf "--output=%s" $values.output | quote }}
{{- $until := $values.until }}
{{- if kindIs "float64" $until }}{{ $until = int64 $until }}{{ end }}
{{- with toString $until }}
- {{ printf "--until=%s" . | quote }}
{{- end }}
{{- with $values.orderBy }}
- {{ printf "--order-by=%s" . | quote }}
{{- end }}
- {{ printf "--format=%s" $values.format | quote }}
- {{ printf "--mode=%s" $values.mode | quote }}
{{- range $values.args }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{- define "spojoin.backfillEnv" -}}
{{- include "spojoin.env" .root }}
{{- with include "spojoin.login" (dict "root" .root "user" "check" "roles" (list "router")) }}{{ . | nindent 0 }}{{ end }}
{{- with .values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "spojoin.backfillMounts" -}}
{{- include "spojoin.volumeMounts" .root }}
{{- if .values.claim }}
- {name: history, mountPath: {{ .values.mountPath | quote }}}
{{- end }}
{{- end }}

{{- define "spojoin.backfillVolumes" -}}
{{- include "spojoin.volumesWith" (dict "root" .root "tmpSize" .values.tmpSize) }}
{{- if .values.claim }}
- name: history
  persistentVolumeClaim: {claimName: {{ .values.claim | quote }}}
{{- end }}
{{- end }}

{{- /* The whole backfill in one pod, on all its cores. */}}
{{- define "spojoin.backfillPod" -}}
metadata:
  labels: {{ include "spojoin.labels" . | nindent 4 }}
spec:
  restartPolicy: Never
  serviceAccountName: {{ include "spojoin.serviceAccountName" .root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  securityContext: {{ include "spojoin.podSecurityContext" .root | nindent 4 }}
  {{- include "spojoin.placement" . | nindent 2 }}
  containers:
    - name: backfill
      image: {{ include "spojoin.sparkImage" .root }}
      imagePullPolicy: {{ .root.Values.sparkImage.pullPolicy }}
      command: [/opt/spojoin/bin/spojoin]
      {{- $arguments := concat (include "spojoin.backfillArguments" . | fromYamlArray) (list "--master=local[*]") }}
      {{- range $name, $value := .values.conf }}{{ $arguments = append $arguments (printf "--conf=%s=%v" $name $value) }}{{ end }}
      args: {{ toJson $arguments }}
      securityContext: {{ include "spojoin.containerSecurityContext" .root | nindent 8 }}
      env: {{ include "spojoin.backfillEnv" . | nindent 8 }}
      resources: {{ toYaml .values.resources | nindent 8 }}
      volumeMounts: {{ include "spojoin.backfillMounts" . | nindent 8 }}
  volumes: {{ include "spojoin.backfillVolumes" . | nindent 4 }}
{{- end }}

{{- /* The backfill on executors, which Kubeflow's operator starts. */}}
{{- define "spojoin.backfillApplication" -}}
{{- $pod := dict "labels" (include "spojoin.labels" . | fromYaml) }}
{{- $_ := set $pod "podSecurityContext" (include "spojoin.podSecurityContext" .root | fromYaml) }}
{{- $_ := set $pod "securityContext" (include "spojoin.containerSecurityContext" .root | fromYaml) }}
{{- range $name := list "nodeSelector" "tolerations" "affinity" }}
{{- with (default (index $.root.Values $name) (index $.values $name)) }}{{ $_ := set $pod $name . }}{{ end }}
{{- end }}
{{- $driver := dict "serviceAccount" (printf "%s-backfill" (include "spojoin.fullname" .root)) }}
{{- $_ := set $driver "env" (include "spojoin.backfillEnv" . | fromYamlArray) }}
{{- $_ := set $driver "volumeMounts" (include "spojoin.backfillMounts" . | fromYamlArray) }}
{{- /* Executors see only rows: they need neither Kafka nor its secrets. */}}
{{- $executor := dict "env" .values.env "volumeMounts" (list (dict "name" "tmp" "mountPath" "/tmp")) }}
{{- if .values.claim }}
{{- $_ := set $executor "volumeMounts" (append $executor.volumeMounts (dict "name" "history" "mountPath" .values.mountPath)) }}
{{- end }}
type: Python
pythonVersion: "3"
mode: cluster
sparkVersion: "4.0.5"
image: {{ include "spojoin.sparkImage" .root }}
imagePullPolicy: {{ .root.Values.sparkImage.pullPolicy }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - {{ .name }}
  {{- end }}
{{- end }}
mainApplicationFile: local:///opt/spojoin/submitted.py
arguments: {{ include "spojoin.backfillArguments" . | fromYamlArray | toJson }}
restartPolicy: {type: Never}
{{- with .values.conf }}
sparkConf:
  {{- range $name, $value := . }}
  {{ $name | quote }}: {{ $value | toString | quote }}
  {{- end }}
{{- end }}
driver: {{ merge (deepCopy .values.driver) $driver $pod | toYaml | nindent 2 }}
executor: {{ merge (deepCopy .values.executor) $executor $pod | toYaml | nindent 2 }}
volumes: {{ include "spojoin.backfillVolumes" . | nindent 2 }}
{{- end }}

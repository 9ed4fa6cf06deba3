{{- /* The faults that are possible here. An external Kafka or Redis may serve others, so no fault breaks it. */}}
{{- define "spojoin.faults" -}}
{{- $kinds := list "delete" }}
{{- if .Values.shareProcessNamespace }}{{ $kinds = concat $kinds (list "kill" "pause") }}{{ end }}
{{- if eq (include "spojoin.usesDevKafka" .) "true" }}{{ $kinds = append $kinds "broker" }}{{ end }}
{{- if eq (include "spojoin.usesDevRedis" .) "true" }}{{ $kinds = append $kinds "redis" }}{{ end }}
{{- join "," $kinds }}
{{- end }}

{{- /* The pod of a job: dict "root" $ "role" <as for labels> "name" "produce" "arguments" list */}}
{{- define "spojoin.jobPod" -}}
metadata:
  labels: {{ include "spojoin.labels" .role | nindent 4 }}
spec:
  restartPolicy: Never
  serviceAccountName: {{ if eq .name "chaos" }}{{ include "spojoin.fullname" .root }}-job-chaos{{ else }}{{ include "spojoin.serviceAccountName" .root }}{{ end }}
  automountServiceAccountToken: {{ eq .name "chaos" }}
  enableServiceLinks: false
  securityContext: {{ include "spojoin.podSecurityContext" .root | nindent 4 }}
  {{- include "spojoin.placement" .role | nindent 2 }}
  containers:
    - name: {{ .name }}
      image: {{ include "spojoin.sparkImage" .root }}
      imagePullPolicy: {{ .root.Values.sparkImage.pullPolicy }}
      command: [/opt/spojoin/bin/python, -m, loadgen]
      args: {{ toJson .arguments }}
      securityContext: {{ include "spojoin.containerSecurityContext" .root | nindent 8 }}
      env:
        {{- include "spojoin.env" .root | nindent 8 }}
        {{- with include "spojoin.login" (dict "root" .root "user" (ternary "feed" "check" (has .name (list "produce" "feed")))) }}{{ . | nindent 8 }}{{ end }}
      resources: {{ toYaml .role.values.resources | nindent 8 }}
      volumeMounts: {{ include "spojoin.volumeMounts" .root | nindent 8 }}
  volumes: {{ include "spojoin.volumesWith" (dict "root" .root "tmpSize" .role.values.tmpSize) | nindent 4 }}
{{- end }}

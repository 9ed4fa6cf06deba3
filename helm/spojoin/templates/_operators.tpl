{{- /* The chart leaves out an operator's objects if the cluster doesn't know their kind; NOTES.txt reports it. */}}
{{- define "spojoin.usesKeda" -}}{{ and .Values.keda.enabled (.Capabilities.APIVersions.Has "keda.sh/v1alpha1") }}{{- end }}
{{- define "spojoin.usesStrimzi" -}}{{ and (or .Values.strimzi.topics.enabled .Values.strimzi.users.enabled) (.Capabilities.APIVersions.Has "kafka.strimzi.io/v1") }}{{- end }}
{{- define "spojoin.usesSpark" -}}{{ and .Values.backfill.operator (.Capabilities.APIVersions.Has "sparkoperator.k8s.io/v1beta2") }}{{- end }}

{{- define "spojoin.leftOut" -}}
{{- $wanted := dict
  "monitoring.coreos.com/v1" (or .Values.serviceMonitor.enabled .Values.prometheusRule.enabled)
  "keda.sh/v1alpha1" .Values.keda.enabled
  "gateway.networking.k8s.io/v1" (not (empty .Values.page.gateways))
  "sparkoperator.k8s.io/v1beta2" (and .Values.backfill.enabled .Values.backfill.operator)
  "kafka.strimzi.io/v1" (or .Values.strimzi.topics.enabled .Values.strimzi.users.enabled) }}
{{- range $version, $isWanted := $wanted }}
{{- if and $isWanted (not ($.Capabilities.APIVersions.Has $version)) }}
This release has no objects of {{ $version }}, because this cluster doesn't know them. Install its operator and upgrade this release.
{{- end }}
{{- end }}
{{- end }}

{{- /* A name that Kubernetes allows. A digest keeps it unique if characters had to change. */}}
{{- define "spojoin.objectName" -}}
{{- $plain := regexReplaceAll "[^a-z0-9.-]" (lower .) "-" | trunc 230 | trimSuffix "-" | trimSuffix "." }}
{{- if eq $plain . }}{{ $plain }}{{ else }}{{ $plain }}-{{ sha256sum . | trunc 8 }}{{ end }}
{{- end }}

{{/*
Names and labels of every object. Suffixes need up to 13 characters of the 63 that a Service name may have.
*/}}
{{- define "workslice.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "workslice.fullname" -}}
{{- $name := include "workslice.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Labels that select pods; call with (dict "root" $ "component" "router"). */}}
{{- define "workslice.selectorLabels" -}}
app.kubernetes.io/name: {{ include "workslice.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* The same labels as `key=value,…`, for the operator's arguments. */}}
{{- define "workslice.selectorArgument" -}}
app.kubernetes.io/name={{ include "workslice.name" .root }},app.kubernetes.io/instance={{ .root.Release.Name }},app.kubernetes.io/component={{ .component }}
{{- end -}}

{{/* All labels of an object. managed-by is Helm's here; `managed-by: workslice` marks the children of pools. */}}
{{- define "workslice.labels" -}}
{{ include "workslice.selectorLabels" . }}
app.kubernetes.io/part-of: workslice
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end -}}

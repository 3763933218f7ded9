{{/*
What the pods of operator and router share: Pod Security `restricted`, placement, image.
*/}}
{{- define "workslice.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "workslice.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* Call with (dict "root" $ "image" .Values.router.image). */}}
{{- define "workslice.image" -}}
{{- printf "%s:%s" .image.repository (default .root.Chart.AppVersion .image.tag) -}}
{{- end -}}

{{/* Labels and annotations of a pod; call with (dict "root" $ "component" "router" "values" .Values.router). */}}
{{- define "workslice.podMetadata" -}}
labels:
  {{- include "workslice.selectorLabels" . | nindent 2 }}
  app.kubernetes.io/part-of: workslice
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .values.podAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where a pod may run; call as podMetadata. */}}
{{- define "workslice.placement" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

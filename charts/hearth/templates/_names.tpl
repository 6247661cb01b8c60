{{/* Labels of everything in the chart. Call with (dict "root" $ "component" "operator"). */}}
{{- define "hearth.labels" -}}
{{ include "hearth.selector" . }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Labels by which pods are chosen; they never change. */}}
{{- define "hearth.selector" -}}
app.kubernetes.io/name: hearth
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "hearth.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/* What the restricted level of pod security asks of a pod and of a container. */}}
{{- define "hearth.restrictedPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "hearth.restrictedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* The user names of the service accounts that policies hold to their fields. */}}
{{- define "hearth.accounts" -}}
{{ printf "['system:serviceaccount:%s:hearth-operator', 'system:serviceaccount:%s:hearth-cleanup']" .Release.Namespace .Release.Namespace }}
{{- end }}

{{/* Variables that the values add to a container's own. Call with the values of the component. */}}
{{- define "hearth.extraEnv" -}}
{{- with .extraEnv }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{/*
A ServiceAccount for a component whose pods have no business with Kubernetes: clouds know pods by it.
Call with (dict "root" $ "component" "agent" "values" .Values.agent).
*/}}
{{- define "hearth.idleAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: hearth-{{ .component }}
  namespace: {{ .root.Release.Namespace | quote }}
  labels: {{- include "hearth.labels" . | nindent 4 }}
  {{- with .values.serviceAccount.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
automountServiceAccountToken: false
{{- end }}

{{/* What the operator gives the pods that it makes, as JSON, by component. */}}
{{- define "hearth.podSettings" -}}
{{- $settings := dict }}
{{- range $component := list "agent" "holder" "etcd" }}
{{- $values := index $.Values $component }}
{{- $one := dict "serviceAccountName" (printf "hearth-%s" $component) "podLabels" $values.podLabels "podAnnotations" $values.podAnnotations "extraEnv" $values.extraEnv }}
{{- if eq $component "etcd" }}
{{- $tolerations := kindIs "invalid" $values.tolerations | ternary $.Values.operator.tolerations $values.tolerations }}
{{- $nodeSelector := kindIs "invalid" $values.nodeSelector | ternary $.Values.operator.nodeSelector $values.nodeSelector }}
{{- $one = merge $one (dict "anyUser" (include "hearth.openshift" $ | not | not) "tolerations" $tolerations "nodeSelector" $nodeSelector "affinity" $values.affinity "resources" $values.resources "priorityClassName" $values.priorityClassName) }}
{{- end }}
{{- $_ := set $settings $component $one }}
{{- end }}
{{- $settings | toJson }}
{{- end }}

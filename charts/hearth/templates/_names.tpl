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

{{/* The image of every part: as it is named, or that of this version in a registry to which `make image` has pushed it. */}}
{{- define "hearth.image" -}}
{{- if .Values.image -}}
{{ .Values.image }}
{{- else -}}
{{- $missing := "no image: none is published. Run `make image REGISTRY=registry.example.com/team`, and install with the same registry as global.imageRegistry (or name an image as image)" }}
{{- printf "%s/hearth:%s" (required $missing (.Values.global).imageRegistry | trimSuffix "/") .Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* Names, separated by commas: of this chart, then of charts above it, which write names or objects with a name. */}}
{{- define "hearth.pullSecretNames" -}}
{{- $names := .Values.imagePullSecrets | default list }}
{{- range (.Values.global).imagePullSecrets }}
{{- $names = append $names (kindIs "string" . | ternary . (dig "name" "" (kindIs "map" . | ternary . dict))) }}
{{- end }}
{{- join "," ($names | uniq) }}
{{- end }}

{{- define "hearth.pullSecrets" -}}
{{- with include "hearth.pullSecretNames" . }}
imagePullSecrets:
  {{- range splitList "," . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}

{{/* "true" on OpenShift, else empty. */}}
{{- define "hearth.openshift" -}}
{{- kindIs "invalid" .Values.openshift.enabled | ternary (.Capabilities.APIVersions.Has "security.openshift.io/v1") .Values.openshift.enabled | ternary "true" "" }}
{{- end }}

{{/* What the restricted level of pod security asks of a pod and of a container. OpenShift's restricted-v2 chooses the user. */}}
{{- define "hearth.restrictedPod" -}}
runAsNonRoot: true
{{- if not (include "hearth.openshift" .) }}
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
{{- end }}
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "hearth.restrictedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* The topology key of nodes on which volumes of a StorageCluster can be used; of '': of any. */}}
{{- define "hearth.topologyKey" -}}
{{ . | empty | ternary "csi.hearth.storage/agent" (printf "cluster.csi.hearth.storage/%s" .) }}
{{- end }}

{{/* The user names of the service accounts that policies hold to their fields. */}}
{{- define "hearth.accounts" -}}
{{ printf "['system:serviceaccount:%s:hearth-operator', 'system:serviceaccount:%s:hearth-cleanup']" .Release.Namespace .Release.Namespace }}
{{- end }}

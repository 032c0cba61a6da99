{{- define "wayleave.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "wayleave.selector" -}}
app.kubernetes.io/name: wayleave
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "wayleave.labels" -}}
{{ include "wayleave.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* config.toml: the keys that the chart needs override those of the values. */ -}}
{{- define "wayleave.config" -}}
{{- $own := dict
  "proxy" (dict "listen" (list "0.0.0.0:3128"))
  "admin" (dict "listen" "0.0.0.0:3129" "token_sha256" (required "admin.tokenSha256 is required: printf %s TOKEN | sha256sum" .Values.admin.tokenSha256))
  "https" (dict "ca_dir" "/etc/wayleave-ca")
  "state" (dict "dir" "/var/lib/wayleave")
-}}
{{- if .Values.fleet.enabled -}}
{{- $store := dict "kind" "redis" "url" (required "fleet.url is required" .Values.fleet.url) -}}
{{- if .Values.fleet.cluster }}{{ $_ := set $store "cluster" true }}{{ end -}}
{{- if .Values.fleet.passwordSecret }}{{ $_ := set $store "password_file" "/etc/wayleave-fleet/password" }}{{ end -}}
{{- $_ := set $own "store" $store -}}
{{- end -}}
{{- mergeOverwrite (deepCopy .Values.config) $own | toToml -}}
{{- end -}}

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

{{- define "wayleave.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- /* The namespaces of the crawlers, as JSON. */ -}}
{{- define "wayleave.crawlerNamespaces" -}}
{{- .Values.crawlerNamespaces | default (list .Release.Namespace) | toJson -}}
{{- end -}}

{{- define "wayleave.probes" -}}
startupProbe:
  httpGet: { path: /readyz, port: admin }
  periodSeconds: 1
  failureThreshold: 60
readinessProbe:
  httpGet: { path: /readyz, port: admin }
  periodSeconds: 5
livenessProbe:
  httpGet: { path: /livez, port: admin }
{{- end -}}

{{- /* The volumes of every proxy, except its state. */ -}}
{{- define "wayleave.volumes" -}}
- name: ca
  secret:
    secretName: {{ required "ca.existingSecret is required: a Secret with ca.crt and ca.key" .Values.ca.existingSecret }}
    defaultMode: 0400
{{- if and .Values.fleet.enabled .Values.fleet.passwordSecret }}
- name: fleet
  secret: { secretName: {{ .Values.fleet.passwordSecret }}, defaultMode: 0400 }
{{- end }}
{{- end -}}

{{- define "wayleave.mounts" -}}
# A directory, not a file, so that the running proxy sees a change of the ConfigMap.
- { name: config, mountPath: /etc/wayleave, readOnly: true }
- { name: ca, mountPath: /etc/wayleave-ca, readOnly: true }
- { name: state, mountPath: /var/lib/wayleave }
{{- if and .Values.fleet.enabled .Values.fleet.passwordSecret }}
- { name: fleet, mountPath: /etc/wayleave-fleet, readOnly: true }
{{- end }}
{{- end -}}

{{- /* config.toml of a proxy with these "listen" addresses: the keys that the chart needs override those of the values. */ -}}
{{- define "wayleave.config" -}}
{{- $listen := .listen -}}
{{- with .root -}}
{{- $own := dict
  "proxy" (dict "listen" $listen)
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
{{- end -}}

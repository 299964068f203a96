{{- define "holdfast.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "holdfast.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "holdfast.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* What is a value in JSON is one in TOML, too; toToml would make 8000.0 of 8000. */}}
{{- define "holdfast.settings" -}}
{{- range $key, $value := .Values.settings }}
{{ $key }} = {{ $value | toJson }}
{{- end }}
{{- if .Values.environment }}

[environment]
{{- range $name, $value := .Values.environment }}
{{ $name }} = {{ $value | toString | toJson }}
{{- end }}
{{- end }}
{{- end -}}

{{/* One container of a server's image: it may write to what is mounted, and to nothing else. */}}
{{- define "holdfast.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
env:
  - { name: HOLDFAST_CONFIG, value: /etc/holdfast/holdfast.toml }
  - { name: HOLDFAST_STOP_PAUSE, value: {{ .Values.stopping.pause | quote }} }
  - { name: HOLDFAST_STOP_SECONDS, value: {{ .Values.stopping.seconds | quote }} }
  {{- range $name, $key := .Values.secret.keys }}
  - { name: {{ $name }}_FILE, value: /run/secrets/holdfast/{{ $key }} }
  {{- end }}
  {{- if .Values.tls.secretName }}
  - { name: HOLDFAST_TLS_CERTIFICATE, value: /run/secrets/tls/tls.crt }
  - { name: HOLDFAST_TLS_KEY, value: /run/secrets/tls/tls.key }
  {{- end }}
  {{- range $name, $value := .Values.spans }}
  - { name: {{ $name }}, value: {{ $value | toString | quote }} }
  {{- end }}
volumeMounts:
  - { name: settings, mountPath: /etc/holdfast, readOnly: true }
  - { name: secrets, mountPath: /run/secrets/holdfast, readOnly: true }
  {{- if .Values.tls.secretName }}
  - { name: tls, mountPath: /run/secrets/tls, readOnly: true }
  {{- end }}
  - { name: spool, mountPath: /tmp }
  - { name: cache, mountPath: /cache }
{{- end -}}

{{- define "holdfast.pod" -}}
serviceAccountName: {{ include "holdfast.account" . }}
# A Service that is called holdfast would otherwise set HOLDFAST_PORT, to something else.
enableServiceLinks: false
automountServiceAccountToken: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{ toJson . }}
{{- end }}
{{- end -}}

{{- define "holdfast.volumes" -}}
- name: secrets
  secret:
    secretName: {{ .Values.secret.name }}
    defaultMode: 0440
{{- if .Values.tls.secretName }}
- name: tls
  secret:
    secretName: {{ .Values.tls.secretName }}
    defaultMode: 0440
{{- end }}
- name: spool
  emptyDir:
    sizeLimit: {{ .Values.spoolSize }}
- name: cache
  emptyDir:
    sizeLimit: {{ .Values.cacheSize }}
{{- end -}}

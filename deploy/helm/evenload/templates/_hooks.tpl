{{/*
The Job that checks the policy before Helm applies an object, and what it has in common with the pod of `helm test`.
A policy that Evenload refuses ends the command: services that run would keep the one before, new pods would not start.
*/}}

{{/* Prints the fields of a hook's pod: the strictest pod security standard admits it, and it is not restarted. */}}
{{- define "evenload.hookPod" -}}
restartPolicy: Never
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- if not (include "evenload.openShift" .) }}
  runAsUser: 65532
  runAsGroup: 65532
  {{- end }}
  seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{/* Prints the fields of its container. */}}
{{- define "evenload.hookContainer" -}}
image: {{ include "evenload.image" (dict "image" .Values.image "defaultTag" .Chart.AppVersion) }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/*
Prints the Job. It carries the policy itself, so that it needs no other object and no right; it runs where the annotator
may. An image that cannot be pulled ends it before Helm's usual timeout of five minutes. Istio and Linkerd add no proxy,
which would go on after it. objects.yaml adds a hash to its name: no Job can be changed where it is applied as an object.
*/}}
{{- define "evenload.policyCheck" -}}
{{- $root := .root -}}
{{- $labels := include "evenload.releaseLabels" $root | fromYaml -}}
{{- $labels = mergeOverwrite $labels (dict "app.kubernetes.io/name" "evenload" "app.kubernetes.io/component" "policy-check" "app.kubernetes.io/part-of" "evenload") -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: evenload-policy-check
  namespace: {{ $root.Release.Namespace }}
  annotations:
    helm.sh/hook: pre-install,pre-upgrade
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
    helm.sh/hook-output-log-policy: hook-failed
  labels:
    {{- toYaml $labels | nindent 4 }}
spec:
  backoffLimit: 0
  activeDeadlineSeconds: 240
  ttlSecondsAfterFinished: 86400
  template:
    metadata:
      annotations:
        {{- toYaml (merge (dict "evenload.io/policy" .policy "linkerd.io/inject" "disabled") $root.Values.annotator.podAnnotations) | nindent 8 }}
      labels:
        {{- toYaml (merge (dict "sidecar.istio.io/inject" "false") $labels $root.Values.annotator.podLabels) | nindent 8 }}
    spec:
      automountServiceAccountToken: false
      {{- include "evenload.hookPod" $root | nindent 6 }}
      {{- with pick $root.Values.annotator "affinity" "nodeSelector" "tolerations" }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      containers:
        - name: policy-check
          command: [evenload, policy, validate, /etc/evenload/policy.yaml]
          terminationMessagePolicy: FallbackToLogsOnError
          resources:
            requests: {cpu: 50m, memory: 64Mi}
            limits: {memory: 256Mi}
          volumeMounts:
            - {name: policy, mountPath: /etc/evenload, readOnly: true}
          {{- include "evenload.hookContainer" $root | nindent 10 }}
      volumes:
        - name: policy
          downwardAPI:
            items:
              - path: policy.yaml
                fieldRef: {fieldPath: "metadata.annotations['evenload.io/policy']"}
{{- end -}}

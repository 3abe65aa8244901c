{{/*
Merges the values into the objects that _kustomize.tpl has read. A value that is left out changes nothing, so with the
default values the objects are those of deploy/kustomize/base.
*/}}

{{/* Prints, as a list of lists, the directories below manifests/ that the values choose; each list is one overlay. */}}
{{- define "evenload.overlays" -}}
{{- $main := list "kustomize/base" -}}
{{- if .Values.ha.enabled -}}{{- $main = append $main "kustomize/components/ha" -}}{{- end -}}
{{- if eq .Values.source "metrics-server" -}}{{- $main = append $main "kustomize/components/metrics-server" -}}{{- end -}}
{{- if .Values.mtls.enabled -}}{{- $main = append $main "kustomize/components/mtls" -}}{{- end -}}
{{- if and .Values.mtls.enabled .Values.mtls.certManager -}}{{- $main = append $main "kustomize/components/cert-manager" -}}{{- end -}}
{{- if .Values.craneAnnotations.enabled -}}{{- $main = append $main "kustomize/components/crane" -}}{{- end -}}
{{- if dig "surge" "enabled" false .Values.descheduler -}}{{- $main = append $main "kustomize/components/surge" -}}{{- end -}}
{{- if .Values.console.enabled -}}{{- $main = append $main "kustomize/components/console" -}}{{- end -}}
{{- if .Values.monitoring.enabled -}}{{- $main = append $main (printf "kustomize/components/monitoring%s" (ternary "-mtls" "" .Values.mtls.enabled)) -}}{{- end -}}
{{- $overlays := list $main -}}
{{- with .Values.placeholders -}}
{{- if .enabled -}}
{{- $room := list "placeholder/base" (printf "placeholder/components/%s" .preset) -}}
{{- if .burstClass -}}{{- $room = append $room "placeholder/components/burst" -}}{{- end -}}
{{- if .sizing.enabled -}}{{- $room = append $room "placeholder/components/sizing" -}}{{- end -}}
{{- if and .sizing.enabled .sizing.proportional -}}{{- $room = append $room "placeholder/components/proportional" -}}{{- end -}}
{{- $overlays = append $overlays $room -}}
{{- end -}}
{{- end -}}
{{- if .Values.secondScheduler.enabled -}}{{- $overlays = append $overlays (list "scheduler/second") -}}{{- end -}}
{{- toJson $overlays -}}
{{- end -}}

{{/* Sets labels of an object's or a pod template's metadata, over those that are there. */}}
{{- define "evenload.label" -}}
{{- $_ := set .metadata "labels" (mergeOverwrite dict (default dict .metadata.labels) .labels) -}}
{{- end -}}

{{/* Prints the labels that say which release an object is of. */}}
{{- define "evenload.releaseLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Prints an image: by its digest where one is set, else by its tag. */}}
{{- define "evenload.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (default .defaultTag .image.tag) -}}
{{- end -}}
{{- end -}}

{{/* Prints true on OpenShift, which gives each namespace users and groups of its own and admits no others. */}}
{{- define "evenload.openShift" -}}
{{- if .Capabilities.APIVersions.Has "security.openshift.io/v1" -}}true{{- end -}}
{{- end -}}

{{/* Prints the version of the cluster's kube-scheduler, without a distribution's suffix: v1.36.3 of v1.36.3-gke.100. */}}
{{- define "evenload.kubernetesVersion" -}}
{{- regexFind "^v[0-9]+\\.[0-9]+\\.[0-9]+" .Capabilities.KubeVersion.Version -}}
{{- end -}}

{{/* Merges the values into every object of the build, and drops those that the values switch off. */}}
{{- define "evenload.values" -}}
{{- $build := .build -}}
{{- $root := $build.root -}}
{{- $off := list "Namespace" -}}
{{- if not $root.Values.guard.enabled -}}{{- $off = concat $off (list "ValidatingAdmissionPolicy" "ValidatingAdmissionPolicyBinding") -}}{{- end -}}
{{- if not $root.Values.networkPolicy.enabled -}}{{- $off = append $off "NetworkPolicy" -}}{{- end -}}
{{- $chosen := list -}}
{{- range $build.objects -}}
{{- if not (has .kind $off) -}}
{{- include (ternary "evenload.kind.pods" "evenload.kind.other" (has .kind (list "Deployment" "CronJob"))) (dict "root" $root "object" .) -}}
{{- include "evenload.label" (dict "metadata" .metadata "labels" (include "evenload.releaseLabels" $root | fromYaml)) -}}
{{- include "evenload.label" (dict "metadata" .metadata "labels" (dict "helm.sh/chart" (printf "%s-%s" $root.Chart.Name ($root.Chart.Version | replace "+" "_")))) -}}
{{- $chosen = append $chosen . -}}
{{- end -}}
{{- end -}}
{{- $_ := set $build "objects" $chosen -}}
{{- include "evenload.checksums" . -}}
{{- end -}}

{{/*
Annotates pods with the checksum of what they mount and read at their start only: Kustomize gives such a ConfigMap
another name when it changes, which restarts the pods; here the annotation does.
*/}}
{{- define "evenload.checksums" -}}
{{- $build := .build -}}
{{- range $map := $build.objects -}}
{{- if and (eq $map.kind "ConfigMap") (has $map.metadata.name $build.hashed) -}}
{{- range $build.objects -}}
{{- with dig "spec" "template" dict . -}}
{{- if contains (printf "\"name\":%q" $map.metadata.name) (toJson .spec) -}}
{{- $checksum := dict (printf "checksum/%s" $map.metadata.name) (toJson $map.data | sha256sum) -}}
{{- $_ := set .metadata "annotations" (mergeOverwrite dict (default dict .metadata.annotations) $checksum) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Merges the values of what runs no pods, by kind and name. */}}
{{- define "evenload.kind.other" -}}
{{- $values := .root.Values -}}
{{- $object := .object -}}
{{- $name := printf "%s/%s" $object.kind $object.metadata.name -}}
{{- with get (dict "monitoring.coreos.com/v1" "monitoring.enabled" "cert-manager.io/v1" "mtls.certManager") $object.apiVersion -}}
{{- if not ($.root.Capabilities.APIVersions.Has $object.apiVersion) -}}
{{- fail (printf "%s needs %s, which this cluster does not serve: install the operator that brings it, or set %s=false (`helm template` takes --api-versions=%s)" . $object.apiVersion . $object.apiVersion) -}}
{{- end -}}
{{- end -}}
{{- if eq $name "ConfigMap/evenload-settings" -}}
{{- with $values.prometheus -}}
{{- $_ := set $object "data" (dict "PROMETHEUS_URL" .url "NODE_LABEL" .nodeLabel "NODE_SELECTOR" .nodeSelector "POD_SELECTOR" .podSelector) -}}
{{- end -}}
{{- else if eq $object.kind "ServiceAccount" -}}
{{- $component := get (dict "placeholder-size" "placeholders" "evenload-scheduler" "secondScheduler") $object.metadata.name -}}
{{- with (index $values (default (trimPrefix "evenload-" $object.metadata.name) $component)).serviceAccountAnnotations -}}
{{- $_ := set $object.metadata "annotations" . -}}
{{- end -}}
{{- else if eq $name "ConfigMap/evenload-policy" -}}
{{- include "evenload.policy" . -}}
{{- else if eq $name "ConfigMap/evenload-scheduler-config" -}}
{{- include "evenload.schedulerConfig" . -}}
{{- else if eq $name "PersistentVolumeClaim/evenload-ledger" -}}
{{- with $values.descheduler.ledger -}}
{{- $_ := set $object.spec.resources.requests "storage" .size -}}
{{- if .storageClassName -}}{{- $_ := set $object.spec "storageClassName" .storageClassName -}}{{- end -}}
{{- if .keep -}}{{- $_ := set $object.metadata "annotations" (dict "helm.sh/resource-policy" "keep") -}}{{- end -}}
{{- end -}}
{{- else if has $name (list "NetworkPolicy/evenload-metrics" "NetworkPolicy/evenload-extender") -}}
{{- $prometheus := index (index $object.spec.ingress 0).from 0 -}}
{{- $_ := set $prometheus.namespaceSelector.matchLabels "kubernetes.io/metadata.name" $values.networkPolicy.prometheusNamespace -}}
{{- if and $values.networkPolicy.controlPlaneCIDRs (eq $object.metadata.name "evenload-extender") -}}
{{- $blocks := list -}}
{{- range $values.networkPolicy.controlPlaneCIDRs -}}{{- $blocks = append $blocks (dict "ipBlock" (dict "cidr" .)) -}}{{- end -}}
{{- $_ := set (index $object.spec.ingress 1) "from" $blocks -}}
{{- end -}}
{{- else if eq (splitList "/" $object.apiVersion | first) "monitoring.coreos.com" -}}
{{- include "evenload.label" (dict "metadata" $object.metadata "labels" $values.monitoring.labels) -}}
{{- range dig "spec" "groups" list $object -}}
{{- range .rules -}}
{{- $_ := set .annotations "runbook_url" (.annotations.runbook_url | replace "docs/runbooks" (default "docs/runbooks" $values.monitoring.runbooks)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Sets the policy file: the shipped one, the sections of `policy`, or the text of `policyFile`. */}}
{{- define "evenload.policy" -}}
{{- $values := .root.Values -}}
{{- if and $values.policy $values.policyFile -}}
{{- fail "policy and policyFile are both set: give the whole policy by one of them" -}}
{{- end -}}
{{- if $values.policyFile -}}
{{- $_ := set .object.data "policy.yaml" $values.policyFile -}}
{{- else if $values.policy -}}
{{- $head := dict "apiVersion" "evenload.io/v1alpha1" "kind" "LoadPolicy" -}}
{{- $_ := set .object.data "policy.yaml" (printf "%s\n" (toYaml (mergeOverwrite $head (deepCopy $values.policy)))) -}}
{{- end -}}
{{- end -}}

{{/* Lets the second scheduler ask by TLS, with the certificate of the Secret evenload-scheduler-tls, where mtls is on. */}}
{{- define "evenload.schedulerConfig" -}}
{{- if .root.Values.mtls.enabled -}}
{{- $config := index .object.data "config.yaml" | fromYaml -}}
{{- $extender := first $config.extenders -}}
{{- $_ := set $extender "urlPrefix" ($extender.urlPrefix | replace "http://" "https://") -}}
{{- $_ := set $extender "enableHTTPS" true -}}
{{- $files := "/etc/evenload-tls" -}}
{{- $_ := set $extender "tlsConfig" (dict "caFile" (printf "%s/ca.crt" $files) "certFile" (printf "%s/tls.crt" $files) "keyFile" (printf "%s/tls.key" $files)) -}}
{{- $_ := set .object.data "config.yaml" (printf "%s\n" (toYaml $config)) -}}
{{- end -}}
{{- end -}}

{{/* Merges the values of a Deployment or CronJob: those of its component, and those of all pods. */}}
{{- define "evenload.kind.pods" -}}
{{- $root := .root -}}
{{- $values := $root.Values -}}
{{- $object := .object -}}
{{- $name := $object.metadata.name -}}
{{- $template := dig "spec" "jobTemplate" "spec" "template" (dig "spec" "template" dict $object) $object -}}
{{- $container := first $template.spec.containers -}}
{{- $image := $values.image -}}
{{- $tag := $root.Chart.AppVersion -}}
{{- $component := dict -}}
{{- if eq $name "placeholder-size" -}}
{{- $component = $values.placeholders.sizing -}}
{{- $replicas := list -}}
{{- range $container.args -}}
{{- $replicas = append $replicas (ternary (printf "--replicas=%v" $values.placeholders.replicas) . (and (hasPrefix "--replicas=" .) (not (kindIs "invalid" $values.placeholders.replicas)))) -}}
{{- end -}}
{{- $_ := set $container "args" $replicas -}}
{{- else if hasPrefix "placeholder" $name -}}
{{- $component = $values.placeholders -}}
{{- $image = $component.image -}}
{{- $tag = splitList ":" $container.image | last -}}
{{- else if eq $name "evenload-scheduler" -}}
{{- $component = $values.secondScheduler -}}
{{- $image = $component.image -}}
{{- $tag = include "evenload.kubernetesVersion" $root -}}
{{- if semverCompare "<1.32.0" (trimPrefix "v" $tag) -}}
{{- $_ := set $container "args" (without $container.args "--feature-gates=SchedulerAsyncPreemption=false") -}}
{{- end -}}
{{- if $values.mtls.enabled -}}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts (dict "name" "tls" "mountPath" "/etc/evenload-tls" "readOnly" true)) -}}
{{- $_ := set $template.spec "volumes" (append $template.spec.volumes (dict "name" "tls" "secret" (dict "secretName" "evenload-scheduler-tls"))) -}}
{{- end -}}
{{- else -}}
{{- $component = index $values (trimPrefix "evenload-" $name) -}}
{{- end -}}
{{- $_ := set $container "image" (include "evenload.image" (dict "image" $image "defaultTag" $tag)) -}}
{{- if $image.pullPolicy -}}{{- $_ := set $container "imagePullPolicy" $image.pullPolicy -}}{{- end -}}
{{- if and (not (kindIs "invalid" $component.replicas)) (hasKey $object.spec "replicas") -}}{{- $_ := set $object.spec "replicas" $component.replicas -}}{{- end -}}
{{- include "evenload.label" (dict "metadata" $template.metadata "labels" (include "evenload.releaseLabels" $root | fromYaml)) -}}
{{- include "evenload.pod" (dict "root" $root "template" $template "container" $container "component" $component) -}}
{{- if eq $container.name "pause" -}}{{- $_ := set $container.resources "limits" (deepCopy $container.resources.requests) -}}{{- end -}}
{{- end -}}

{{/* Merges what every kind of pod may be given: maps into the shipped ones, lists behind them. */}}
{{- define "evenload.pod" -}}
{{- $component := .component -}}
{{- $container := .container -}}
{{- $spec := .template.spec -}}
{{- $metadata := .template.metadata -}}
{{- with $component.podAnnotations -}}{{- $_ := set $metadata "annotations" (mergeOverwrite dict (default dict $metadata.annotations) .) -}}{{- end -}}
{{- with $component.podLabels -}}{{- $_ := set $metadata "labels" (mergeOverwrite dict $metadata.labels .) -}}{{- end -}}
{{- with $component.resources -}}{{- $_ := set $container "resources" (mergeOverwrite dict $container.resources .) -}}{{- end -}}
{{- with $component.affinity -}}{{- $_ := set $spec "affinity" (mergeOverwrite dict (default dict $spec.affinity) .) -}}{{- end -}}
{{- with $component.nodeSelector -}}{{- $_ := set $spec "nodeSelector" . -}}{{- end -}}
{{- with $component.tolerations -}}{{- $_ := set $spec "tolerations" . -}}{{- end -}}
{{- with $component.priorityClassName -}}{{- $_ := set $spec "priorityClassName" . -}}{{- end -}}
{{- with $component.extraArgs -}}{{- $_ := set $container "args" (concat (default list $container.args) .) -}}{{- end -}}
{{- with $component.extraEnv -}}{{- $_ := set $container "env" (concat (default list $container.env) .) -}}{{- end -}}
{{- with $component.extraVolumeMounts -}}{{- $_ := set $container "volumeMounts" (concat (default list $container.volumeMounts) .) -}}{{- end -}}
{{- with $component.extraVolumes -}}{{- $_ := set $spec "volumes" (concat (default list $spec.volumes) .) -}}{{- end -}}
{{- with $component.extraInitContainers -}}{{- $_ := set $spec "initContainers" (concat (default list $spec.initContainers) .) -}}{{- end -}}
{{- with .root.Values.imagePullSecrets -}}{{- $_ := set $spec "imagePullSecrets" . -}}{{- end -}}
{{- if include "evenload.openShift" .root -}}{{- $_ := set $spec "securityContext" (omit $spec.securityContext "runAsUser" "runAsGroup" "fsGroup") -}}{{- end -}}
{{- end -}}

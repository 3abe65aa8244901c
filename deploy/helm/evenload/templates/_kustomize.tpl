{{/*
Reads the manifests of deploy/ as Kustomize would: `python -m deploy.helm` copies them to `manifests/`.

Templates return text only, so the objects are collected in a dict that every define here gets as `.build`:
  build.root     the root context, for .Files and .Release
  build.objects  the objects up to now, each a dict
  build.hashed   the names of ConfigMaps that Kustomize would give a hash: who mounts them must restart when they change
Kustomize's fields that deploy/ does not use are refused, so that a new one is not ignored.
*/}}

{{/* Prints a file of the chart, with the release's namespace in place of evenload-system. */}}
{{- define "evenload.kustomize.file" -}}
{{- $text := .build.root.Files.Get .path -}}
{{- if not $text -}}
{{- fail (printf "the chart has no file %s: `python -m deploy.helm` writes manifests/" .path) -}}
{{- end -}}
{{- $text | replace "evenload-system" .build.root.Release.Namespace -}}
{{- end -}}

{{/* Adds the objects of a directory's kustomization.yaml; those of a Component see, and change, all that came before. */}}
{{- define "evenload.kustomize.add" -}}
{{- $build := .build -}}
{{- $directory := .directory -}}
{{- $text := include "evenload.kustomize.file" (dict "build" $build "path" (printf "%s/kustomization.yaml" $directory)) -}}
{{- $file := fromYaml $text -}}
{{- $unknown := without (keys $file) "apiVersion" "kind" "resources" "components" "configMapGenerator" "images" "labels" "patches" "replicas" -}}
{{- if $unknown -}}
{{- fail (printf "%s/kustomization.yaml: the chart cannot read %s; extend templates/_kustomize.tpl" $directory (join ", " $unknown)) -}}
{{- end -}}
{{- $before := list -}}
{{- if eq $file.kind "Kustomization" -}}
{{- $before = $build.objects -}}
{{- $_ := set $build "objects" list -}}
{{- end -}}
{{- range $file.resources -}}
{{- $path := clean (printf "%s/%s" $directory .) -}}
{{- if hasSuffix ".yaml" $path -}}
{{- include "evenload.kustomize.documents" (dict "build" $build "path" $path) -}}
{{- else -}}
{{- include "evenload.kustomize.add" (dict "build" $build "directory" $path) -}}
{{- end -}}
{{- end -}}
{{- range $file.components -}}
{{- include "evenload.kustomize.add" (dict "build" $build "directory" (clean (printf "%s/%s" $directory .))) -}}
{{- end -}}
{{- range $file.configMapGenerator -}}
{{- include "evenload.kustomize.configMap" (dict "build" $build "directory" $directory "generator" .) -}}
{{- end -}}
{{- range $file.replicas -}}
{{- include "evenload.kustomize.replicas" (dict "build" $build "replicas" .) -}}
{{- end -}}
{{- range $file.patches -}}
{{- include "evenload.kustomize.patch" (dict "build" $build "patch" .) -}}
{{- end -}}
{{- range $labels := $file.labels -}}
{{- range $build.objects -}}
{{- include "evenload.label" (dict "metadata" .metadata "labels" $labels.pairs) -}}
{{- with and $labels.includeTemplates (dig "spec" "jobTemplate" "spec" "template" (dig "spec" "template" dict .) .) -}}
{{- include "evenload.label" (dict "metadata" .metadata "labels" $labels.pairs) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $_ := set $build "objects" (concat $before $build.objects) -}}
{{- end -}}

{{/* Adds the objects of several directories to the build; a Component among them changes those of its own list only. */}}
{{- define "evenload.kustomize.overlay" -}}
{{- $build := .build -}}
{{- $before := $build.objects -}}
{{- $_ := set $build "objects" list -}}
{{- range .directories -}}
{{- include "evenload.kustomize.add" (dict "build" $build "directory" (printf "manifests/%s" .)) -}}
{{- end -}}
{{- $_ := set $build "objects" (concat $before $build.objects) -}}
{{- end -}}

{{/* Adds every document of a manifest. */}}
{{- define "evenload.kustomize.documents" -}}
{{- $build := .build -}}
{{- range regexSplit "(?m)^---$" (include "evenload.kustomize.file" .) -1 -}}
{{- $_ := set $build "objects" (append $build.objects (fromYaml .)) -}}
{{- end -}}
{{- end -}}

{{/* Adds the ConfigMap of a generator. */}}
{{- define "evenload.kustomize.configMap" -}}
{{- $build := .build -}}
{{- $directory := .directory -}}
{{- $options := default dict .generator.options -}}
{{- $data := dict -}}
{{- range .generator.literals -}}
{{- $pair := regexSplit "=" . 2 -}}
{{- $_ := set $data (first $pair) (last $pair) -}}
{{- end -}}
{{- range .generator.files -}}
{{- $pair := regexSplit "=" . 2 -}}
{{- $_ := set $data (first $pair) (include "evenload.kustomize.file" (dict "build" $build "path" (printf "%s/%s" $directory (last $pair)))) -}}
{{- end -}}
{{- $metadata := dict "name" .generator.name "namespace" .generator.namespace -}}
{{- if $options.labels -}}
{{- $_ := set $metadata "labels" (deepCopy $options.labels) -}}
{{- end -}}
{{- if not $options.disableNameSuffixHash -}}
{{- $_ := set $build "hashed" (append $build.hashed .generator.name) -}}
{{- end -}}
{{- $object := dict "apiVersion" "v1" "kind" "ConfigMap" "metadata" $metadata "data" $data -}}
{{- $_ := set $build "objects" (append $build.objects $object) -}}
{{- end -}}

{{/* Sets the number of replicas of the Deployment of that name. */}}
{{- define "evenload.kustomize.replicas" -}}
{{- $wanted := .replicas -}}
{{- range .build.objects -}}
{{- if and (eq .kind "Deployment") (eq .metadata.name $wanted.name) -}}
{{- $_ := set .spec "replicas" $wanted.count -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Applies a JSON patch to the objects of its target. */}}
{{- define "evenload.kustomize.patch" -}}
{{- $target := .patch.target -}}
{{- $operations := .patch.patch -}}
{{- range $object := .build.objects -}}
{{- if and (eq $object.kind $target.kind) (regexMatch (printf "^(%s)$" (default ".*" $target.name)) $object.metadata.name) -}}
{{- range fromYamlArray $operations -}}
{{- include "evenload.kustomize.operation" (dict "object" $object "operation" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Applies one operation of a JSON patch (RFC 6902): add, replace, remove or test. Templates can change dicts but not
lists, so a changed list takes the old one's place in `parent`, the dict that holds it.
*/}}
{{- define "evenload.kustomize.operation" -}}
{{- $operation := .operation -}}
{{- $where := printf "%s/%s: %s %s" .object.kind .object.metadata.name $operation.op $operation.path -}}
{{- $segments := splitList "/" (trimPrefix "/" $operation.path) -}}
{{- $node := .object -}}
{{- $parent := dict -}}
{{- $parentKey := "" -}}
{{- range initial $segments -}}
{{- $key := . | replace "~1" "/" | replace "~0" "~" -}}
{{- if kindIs "map" $node -}}
{{- if not (hasKey $node $key) -}}{{- fail (printf "%s: there is no %s" $where $key) -}}{{- end -}}
{{- $parent = $node -}}
{{- $parentKey = $key -}}
{{- $node = index $node $key -}}
{{- else -}}
{{- $node = index $node (int $key) -}}
{{- end -}}
{{- end -}}
{{- $key := last $segments | replace "~1" "/" | replace "~0" "~" -}}
{{- if kindIs "map" $node -}}
{{- if and (ne $operation.op "add") (not (hasKey $node $key)) -}}{{- fail (printf "%s: there is no %s" $where $key) -}}{{- end -}}
{{- if eq $operation.op "test" -}}
{{- if ne (toJson (index $node $key)) (toJson $operation.value) -}}{{- fail (printf "%s: it is %s, expected %s" $where (toJson (index $node $key)) (toJson $operation.value)) -}}{{- end -}}
{{- else if eq $operation.op "remove" -}}
{{- $_ := unset $node $key -}}
{{- else -}}
{{- $_ := set $node $key $operation.value -}}
{{- end -}}
{{- else if and (eq $operation.op "add") (eq $key "-") -}}
{{- $_ := set $parent $parentKey (append $node $operation.value) -}}
{{- else if eq $operation.op "test" -}}
{{- if ne (toJson (index $node (int $key))) (toJson $operation.value) -}}{{- fail (printf "%s: it is %s, expected %s" $where (toJson (index $node (int $key))) (toJson $operation.value)) -}}{{- end -}}
{{- else if eq $operation.op "remove" -}}
{{- $_ := set $parent $parentKey (concat (slice $node 0 (int $key)) (slice $node (add1 (int $key)))) -}}
{{- else -}}
{{- fail (printf "%s: the chart cannot do this in a list; extend templates/_kustomize.tpl" $where) -}}
{{- end -}}
{{- end -}}

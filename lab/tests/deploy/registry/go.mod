module evenload.io/lab/tests/deploy/registry

go 1.26.0

godebug default=go1.26

tool github.com/google/go-containerregistry/cmd/registry

require github.com/google/go-containerregistry v0.22.1 // indirect

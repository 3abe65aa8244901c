# One image, four commands: `evenload annotator | extender | descheduler`, and the command line for people.
#   docker build -t evenload:0.2.0 .
# The base is named by the digest that docker-library/repo-info lists for python:3.11-slim-trixie (3.11.15, 2026-08-05; an index
# for amd64, arm64 and others). What pip installs is pinned by hashes, the build backend too. Any base with Python, pip, ca-certificates
# and ldd will do: `make -C lab image` builds on Debian's own, without a registry.
FROM docker.io/library/python:3.11-slim-trixie@sha256:90744cff8f32887f075c47d747a173ff333e9e98801667af93c357fa9f5e28ff AS build
WORKDIR /src
COPY requirements.txt requirements-build.txt ./
# The pins are complete, and leave out what nothing imports (requirements-unused.in).
RUN python -m venv --without-pip /opt/evenload \
 && python -m venv --without-pip /opt/build \
 && python -m pip --python /opt/evenload/bin/python install --quiet --disable-pip-version-check --no-cache-dir --no-compile --require-hashes --no-deps -r requirements.txt \
 && python -m pip --python /opt/build/bin/python install --quiet --disable-pip-version-check --no-cache-dir --no-compile --require-hashes --no-deps -r requirements-build.txt
COPY . ./
RUN python -m pip --python /opt/build/bin/python wheel --quiet --disable-pip-version-check --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
 && python -m pip --python /opt/evenload/bin/python install --quiet --disable-pip-version-check --no-cache-dir --no-compile --no-deps --no-index /wheels/evenload-*.whl
# The interpreter, the environment and the shared libraries under them, without what is never imported; then everything is imported there.
RUN python deploy/image/root.py /opt/evenload /image annotator cli console descheduler extender kube kube_scheduler policy promql runtime simulator \
 && mkdir /ledger

FROM scratch
LABEL org.opencontainers.image.title="Evenload" \
      org.opencontainers.image.description="Load-aware scheduling for Kubernetes: even by what nodes really use" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="docker.io/library/python:3.11-slim-trixie" \
      org.opencontainers.image.base.digest="sha256:90744cff8f32887f075c47d747a173ff333e9e98801667af93c357fa9f5e28ff"
COPY --from=build /image /
# The descheduler's ledger's; a new volume there takes over the owner.
COPY --from=build --chown=65532:65532 /ledger /var/lib/evenload
# The root is read-only where we run: no bytecode is written, and temporary files have the volumes that the manifests give them.
ENV PATH=/opt/evenload/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8900 8901 8902
ENTRYPOINT ["evenload"]
CMD ["--help"]

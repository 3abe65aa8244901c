# One image, four commands: `evenload annotator | extender | descheduler`, and the command line for people.
#   docker build -t evenload:0.1.0 .
# Both stages begin with the same base, by the digest that docker-library/repo-info lists for python:3.11-slim-trixie (3.11.15,
# 2026-08-05; an index for amd64, arm64 and others). What pip installs is pinned by hashes, the build backend too.
FROM docker.io/library/python:3.11-slim-trixie@sha256:90744cff8f32887f075c47d747a173ff333e9e98801667af93c357fa9f5e28ff AS build
WORKDIR /src
COPY requirements.txt requirements-build.txt ./
RUN python -m venv --without-pip /opt/evenload \
 && python -m pip --python /opt/evenload/bin/python install --quiet --disable-pip-version-check --no-cache-dir --require-hashes -r requirements.txt \
 && python -m pip install --quiet --disable-pip-version-check --no-cache-dir --require-hashes -r requirements-build.txt
COPY . ./
RUN python -m pip wheel --quiet --disable-pip-version-check --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels . \
 && python -m pip --python /opt/evenload/bin/python install --quiet --disable-pip-version-check --no-cache-dir --no-deps --no-index /wheels/evenload-*.whl

FROM docker.io/library/python:3.11-slim-trixie@sha256:90744cff8f32887f075c47d747a173ff333e9e98801667af93c357fa9f5e28ff
LABEL org.opencontainers.image.title="Evenload" \
      org.opencontainers.image.description="Load-aware scheduling for Kubernetes: even by what nodes really use" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="docker.io/library/python:3.11-slim-trixie" \
      org.opencontainers.image.base.digest="sha256:90744cff8f32887f075c47d747a173ff333e9e98801667af93c357fa9f5e28ff"
# Nothing here can build or fetch; the directory is the descheduler's ledger's, and a new volume there takes over its owner.
RUN python -m pip uninstall --quiet --yes --root-user-action=ignore setuptools wheel pip \
 && rm -r /usr/local/lib/python3.11/ensurepip \
 && install --directory --owner=65532 --group=65532 /var/lib/evenload
COPY --from=build /opt/evenload /opt/evenload
# The root is read-only where we run: no bytecode is written, and temporary files have the volumes that the manifests give them.
ENV PATH=/opt/evenload/bin:/usr/local/bin:/usr/bin:/bin PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8900 8901 8902
ENTRYPOINT ["evenload"]
CMD ["--help"]

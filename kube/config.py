"""From a kubeconfig or the pod's service account to a connected Client.

Every service and command calls `connect` once. The official client reads kubeconfigs (contexts, client certificates,
tokens, exec plugins, proxies); this module chooses which, and turns each way it can fail into a ConfigError that names
the file, what was expected and the next step. Order, as kubectl's: the file given, $KUBECONFIG, ~/.kube/config, then
the service account.
"""

import functools
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kube import errors
from kube.http import client, undecodable
from runtime import clock as clocks
from runtime import files as named_files

if TYPE_CHECKING:
    from kubernetes.client.configuration import Configuration

DEFAULT_FILE = "~/.kube/config"
MOST_BYTES = 16 << 20  # of a kubeconfig: 10,000 clusters with their certificates
SERVICE_HOST = "KUBERNETES_SERVICE_HOST"
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")  # the kubelet mounts token and ca.crt there


def connect(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    *,
    impersonate: str = "",
    clock: clocks.Clock | None = None,
    environment: Mapping[str, str] | None = None,
    service_account: Path = SERVICE_ACCOUNT,
    watch_idle_seconds: float = client.WATCH_IDLE_SECONDS,
) -> client.Client:
    """A Client for the cluster meant, which asks as the user `impersonate` if one is named; ConfigError when the
    configuration cannot be used. Sends nothing yet.
    """
    environment = os.environ if environment is None else environment
    files = _files(kubeconfig, environment)
    if not files and SERVICE_HOST not in environment:
        raise errors.ConfigError(
            f"no cluster to talk to: neither --kubeconfig, $KUBECONFIG nor {DEFAULT_FILE} exists, and this is no pod "
            f"(${SERVICE_HOST} is unset); pass --kubeconfig FILE"
        )
    from kube.http import transport  # imports the kubernetes package: half a second that --help need not spend

    settings = _from_files(files, context) if files else _from_pod(context, environment, service_account)
    _check_url(settings.host, files)
    ticking = clock or clocks.WallClock()
    try:
        sending = transport.Transport(settings, clock=ticking, impersonate=impersonate)
    except ValueError:  # urllib3's, with the address in its text
        raise errors.ConfigError(
            "the proxy for the apiserver cannot be used: expected http://[USER:PASSWORD@]HOST:PORT, with signs such as "
            f"@ : / # in the password percent-encoded: check proxy-url in {files!r} or $HTTPS_PROXY"
        ) from None
    return client.Client(sending, undecodable.UndecodableObjects(ticking), watch_idle_seconds=watch_idle_seconds)


def has_kubeconfig() -> bool:
    """Whether $KUBECONFIG or ~/.kube/config names a kubeconfig. ConfigError where it is unreadable."""
    return bool(_files(None, os.environ))


def context_name(kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None) -> str:
    """Returns the name of the kubeconfig's context in use, "" for none. ConfigError as `connect`'s."""
    files = _files(kubeconfig, os.environ)
    if context or not files:
        return context or ""
    from kubernetes.config import config_exception, kube_config

    try:
        return str(kube_config.KubeConfigMerger(files).config["current-context"])
    except config_exception.ConfigException:  # only `connect` needs one, and says so
        return ""


def _files(kubeconfig: str | os.PathLike[str] | None, environment: Mapping[str, str]) -> str:
    """The kubeconfig files to merge, joined as $KUBECONFIG is; "" for none. The file of the option must be there, and
    one of those of $KUBECONFIG: another cluster's answer, a pod's or this machine's, would look like the one meant.
    """
    if kubeconfig is not None:
        named = [str(Path(part).expanduser()) for part in os.fspath(kubeconfig).split(os.pathsep) if part]
        for name in named or [""]:
            _check_readable(name)
        return os.pathsep.join(named)
    listed = environment.get("KUBECONFIG") or DEFAULT_FILE
    files = [path for part in listed.split(os.pathsep) if part and (path := Path(part).expanduser()).exists()]
    for path in files:
        _check_readable(str(path))
    if not files and environment.get("KUBECONFIG"):
        raise errors.ConfigError(
            f"$KUBECONFIG is {listed!r}: no such file; expected a kubeconfig: correct it, unset it, or pass "
            "--kubeconfig FILE"
        )
    return os.pathsep.join(map(str, files))


def _check_readable(name: str) -> None:
    try:
        named_files.read(Path(name), MOST_BYTES)
    except OSError as error:
        raise errors.ConfigError(
            f"kubeconfig {name!r}: {error.strerror}; expected a readable file: check --kubeconfig or $KUBECONFIG"
        ) from error


def _from_files(files: str, context: str | None) -> "Configuration":
    import yaml
    from kubernetes.client import configuration
    from kubernetes.config import config_exception, kube_config

    logging.getLogger().addFilter(_without_its_words)  # the library logs there, also when it asks the plugin again
    settings = configuration.Configuration()
    try:
        merged = kube_config.KubeConfigMerger(files)
        if merged.config is None or not isinstance(merged.config.value, dict):
            raise config_exception.ConfigException("no configuration in it")
        names = [one["name"] for one in merged.config.value.get("contexts") or ()]
        wanted = context or merged.config.value.get("current-context")
        if wanted and wanted not in names:
            raise config_exception.ConfigException(f"{wanted!r} is none of its contexts, {', '.join(names)}")
        loader = kube_config.KubeConfigLoader(merged.config, active_context=context)
        loader.load_and_set(settings)
        plugin = _plugin(merged.config, context)
    except (
        config_exception.ConfigException,
        yaml.YAMLError,
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
    ) as error:
        raise errors.ConfigError(_unusable(files, context, error)) from error
    if plugin and not settings.api_key and not settings.cert_file:
        raise errors.ConfigError(
            f"kubeconfig {files!r}: the credential plugin {plugin!r} gave no token and no certificate; "
            "run it by hand to see why"
        )
    return settings


def _plugin(merged: "Mapping[str, object]", context: str | None) -> str:
    """The command of the exec plugin of the context's user, "" without one.

    The library only logs that a plugin failed and goes on without credentials; this lets `_from_files` say so.
    """
    nodes: Any = merged
    chosen = nodes["contexts"].get_with_name(context or nodes["current-context"])["context"]
    user = nodes["users"].get_with_name(chosen.safe_get("user") or "", safe=True)
    plugin = user["user"] if user is not None and "user" in user else {}
    return str(plugin["exec"]["command"]) if "exec" in plugin else ""


def _from_pod(context: str | None, environment: Mapping[str, str], service_account: Path) -> "Configuration":
    from kubernetes.client import configuration
    from kubernetes.config import config_exception, incluster_config

    if context:
        raise errors.ConfigError(f"--context {context!r} needs a kubeconfig, and there is none: pass --kubeconfig FILE")
    settings = configuration.Configuration()
    token, authority = str(service_account / "token"), str(service_account / "ca.crt")
    loader = incluster_config.InClusterConfigLoader(token, authority, environ=environment)
    try:
        loader.load_and_set(settings)
    except (config_exception.ConfigException, OSError) as error:
        raise errors.ConfigError(
            f"in-cluster configuration: {error} Expected token and ca.crt of a service account in {service_account}: "
            "set automountServiceAccountToken, or pass --kubeconfig FILE"
        ) from error
    settings.refresh_api_key_hook = functools.partial(_renew, service_account / "token")
    return settings


def _renew(token: Path, settings: "Configuration") -> None:
    """Called by the library for every request: the token as it stands, because the kubelet changes it.

    The library's own hook counts a minute by a clock that may be set back, and knows nothing of our errors.
    """
    text = token.read_text(encoding="utf-8", errors="replace").strip()
    if not text:
        raise errors.ConfigError(f"{token} is empty: expected the token of the pod's service account from the kubelet")
    settings.api_key["BearerToken"] = f"Bearer {text}"


def _check_url(url: str, files: str) -> None:
    place = url.rpartition("@")[2]
    if not url.startswith(("https://", "http://")):
        raise errors.ConfigError(f"kubeconfig {files!r}: server {place!r}: expected a URL as https://host:6443")
    if "@" in url:  # it would stand in every message, and urllib3 would not send it
        raise errors.ConfigError(
            f"kubeconfig {files!r}: server {place!r} comes with a user: give credentials as the user of the context"
        )


def _without_its_words(record: logging.LogRecord) -> bool:
    """A log filter: of a credential plugin that failed the library logs all it printed, which may be half a token."""
    if record.getMessage().startswith("exec: "):
        record.msg, record.args = "the credential plugin failed", ()
    return True


def _unusable(files: str, context: str | None, error: Exception) -> str:
    chosen = f" (context {context!r})" if context else ""
    reason = " ".join(str(error).split()) or type(error).__name__
    if (mark := getattr(error, "problem_mark", None)) is not None:  # the library's words may quote what stands there
        reason = f"no YAML at line {mark.line + 1}, column {mark.column + 1}"
    if isinstance(error, TypeError | KeyError | AttributeError):
        reason = f"it is not shaped like a kubeconfig ({reason})"
    return (
        f"kubeconfig {files!r}{chosen}: {reason}; expected what `kubectl config view` prints: "
        "check the file and --context"
    )

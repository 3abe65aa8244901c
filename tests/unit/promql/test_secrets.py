"""No message about an address, a header or a proxy that cannot be used shows what is secret in it."""

import traceback

import pytest

from promql import errors
from promql.http import client, options

SECRET = "s3cr3t"
ADDRESSES = [
    f"http://me:{SECRET}",
    f"http://me:{SECRET}/",
    f"http://me:{SECRET}#x@host",
    f"http://me:{SECRET}?x@host",
    f"http://me:{SECRET}@host:x",
    f"ftp://me:{SECRET}@host",
    f"me:{SECRET}@host",
    f"http://[me:{SECRET}@host",
    f"http://me:{SECRET}@127.0.0.1:1",
    f"https://me:{SECRET}@127.0.0.1:1",
]


def error_text(error: BaseException) -> str:
    """The error with the tracebacks of its causes."""
    return "".join(line for line in traceback.format_exception(error) if not line.lstrip().startswith("File "))


@pytest.mark.parametrize("address", ADDRESSES)
def test_of_an_address_the_password_is_never_told(address: str) -> None:
    with pytest.raises(errors.PromqlError) as refused:
        client.connect(address, timeout_seconds=60).query("up")
    assert SECRET not in error_text(refused.value)


@pytest.mark.parametrize("header", [f"Bearer {SECRET}", f": {SECRET}", f"A: {SECRET}\nB: c", f"Authorization={SECRET}"])
def test_a_header_that_is_none_is_refused_unseen(header: str) -> None:
    with pytest.raises(errors.ConfigError, match="--prometheus-header") as refused:
        options.Connection(prometheus_header=(header,)).connect("http://127.0.0.1:1")
    assert SECRET not in error_text(refused.value)


@pytest.mark.parametrize("proxy", [f"http://me:{SECRET}@127.0.0.1:1", f"me:{SECRET}", f"http://me:{SECRET}"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_of_the_environment_is_told_without_its_user(
    monkeypatch: pytest.MonkeyPatch, scheme: str, proxy: str
) -> None:
    monkeypatch.setenv(f"{scheme}_proxy", proxy)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(errors.Unreachable) as refused:
        client.connect(f"{scheme}://192.0.2.1:9", timeout_seconds=60).query("up")
    assert SECRET not in error_text(refused.value)

"""No message of the command line shows a password that somebody put into a URL."""

import pytest

from cli.common import http_client
from tests import commands

SECRET = "s3cr3t"
URLS = [f"http://me:{SECRET}@127.0.0.1:1", f"me:{SECRET}@127.0.0.1:1", f"http://me:{SECRET}", f"https://me:{SECRET}/x"]
COMMANDS = [
    ("nodes", "--extender"),
    ("explain", "pod", "p", "--extender"),
    ("plan", "--descheduler"),
    ("evictions", "--descheduler"),
    ("story", "--descheduler"),
    ("scheduler-config", "--policy", __file__, "--url"),
]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_url_with_a_user_is_refused_unseen(command: tuple[str, ...], url: str) -> None:
    ended = commands.run(*command, url, code=2)
    assert "is not a base URL" in ended.output
    assert SECRET not in ended.output


def test_a_proxy_that_is_none_is_told_without_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"me:{SECRET}")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(http_client.Unreachable) as refused:
        http_client.Service("http://192.0.2.1:9").get("/nodes")
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("nowhere", "'nowhere'"),
        ("http://host:80/a?b", "'http://host:80/a?b'"),
        ("ftp://host", "'ftp://host'"),
        (f"http://host:{SECRET}", "(not shown, it may hold a password)"),
        (f"host:{SECRET}@other", "(not shown, it may hold a password)"),
    ],
)
def test_a_text_that_is_no_url_is_shown_where_it_holds_no_password(text: str, redacted: str) -> None:
    assert http_client.quoted(text) == redacted

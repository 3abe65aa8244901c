import json
import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from runtime import logs


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Give the root logger back as it was: configure() is for whole processes."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in logs.THIRD_PARTIES}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, before in levels.items():
        logging.getLogger(name).setLevel(before)


def test_json_lines_carry_the_keys_of_kubernetes(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(logging_format="json")
    logs.get("annotator.sync").info("node patched", node="node-1", bytes=120)
    line = json.loads(capsys.readouterr().err)
    assert line.pop("ts").endswith("Z")
    assert line == {"level": "info", "logger": "annotator.sync", "msg": "node patched", "node": "node-1", "bytes": 120}


def test_text_lines_are_message_then_key_value(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    logs.get("annotator.sync").warning("node skipped", node="node-1", reason="no series")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "[warning] node skipped [annotator.sync] node=node-1 reason='no series'" in captured.err


@pytest.mark.parametrize("logging_format", ["text", "json"])
def test_secrets_never_reach_a_line(capsys: pytest.CaptureFixture[str], logging_format: str) -> None:
    logs.configure(logging_format=logging_format)
    logs.get("x").info("asked", Authorization="Bearer s3cret", bearer_token="s3cret", password="s3cret", url="http://a")
    shown = capsys.readouterr().err
    assert "s3cret" not in shown
    assert shown.count("[redacted]") == 3
    assert "http://a" in shown


CREDENTIALS = {
    "a bearer token": "Invalid header value b'Bearer s3cr3t-token'",
    "a basic password": "sent Authorization: Basic czNjcjN0LXRva2Vu",
    "the user of a URL": "GET https://me:s3cr3t@prometheus:9090/api/v1/query gave 500",
    "a web token": "asked with eyJhbGciOiJSUzI1NiJ9.czNjcjN0.czNjcjN0 and refused",
    "a private key": "loaded -----BEGIN EC PRIVATE KEY-----\nczNjcjN0\n-----END EC PRIVATE KEY----- and failed",
}


@pytest.mark.parametrize("logging_format", ["text", "json"])
@pytest.mark.parametrize("text", CREDENTIALS.values(), ids=CREDENTIALS)
def test_what_has_the_form_of_a_credential_reaches_no_line(
    capsys: pytest.CaptureFixture[str], logging_format: str, text: str
) -> None:
    logs.configure(logging_format=logging_format)
    logs.get("x").error("failed", reason=text)
    logging.getLogger("a library").error("%s", text)
    try:
        raise ValueError(text)
    except ValueError:
        logs.get("x").exception("crashed")
    shown = capsys.readouterr().err
    assert "s3cr3t" not in shown
    assert "czNjcjN0" not in shown
    assert shown.count("[redacted]") >= 3


def test_prose_about_credentials_stays(capsys: pytest.CaptureFixture[str]) -> None:
    prose = "Bearer token of https://prometheus:9090/a@b is out of date"
    logs.configure()
    logs.get("x").info("refused", reason=prose)
    assert prose in capsys.readouterr().err


@pytest.mark.parametrize(("verbosity", "is_logged"), [(0, False), (1, True)])
def test_debug_lines_need_v(capsys: pytest.CaptureFixture[str], verbosity: int, is_logged: bool) -> None:
    logs.configure(verbosity=verbosity)
    logs.get("x").debug("details")
    assert ("details" in capsys.readouterr().err) is is_logged


@pytest.mark.parametrize(("verbosity", "is_logged"), [(1, False), (2, True)])
def test_the_libraries_own_debug_lines_need_vv(
    capsys: pytest.CaptureFixture[str], verbosity: int, is_logged: bool
) -> None:
    logs.configure(verbosity=verbosity)
    logging.getLogger("urllib3").debug("connection %s", "made")
    assert ("connection made" in capsys.readouterr().err) is is_logged


def test_an_exception_brings_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(logging_format="json")
    try:
        raise KeyError("node-9")
    except KeyError:
        logs.get("x").exception("cycle failed", loop="sync")
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["loop"]) == ("error", "sync")
    assert "KeyError: 'node-9'" in line["exception"]


def test_text_of_others_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure()
    clipboard, erase = "\x1b]52;c;eA==\x07", "\x9b2J"
    logs.get("x").warning(f"pod {clipboard}\nnot a line", pod=clipboard, node=erase, owner="\u202egnp")
    logging.getLogger("urllib3").warning("proxy says %s", clipboard + erase)
    try:
        raise ValueError(clipboard + erase)
    except ValueError:
        logs.get("x").exception("boom")
    shown = capsys.readouterr().err
    assert not set("\x1b\x07\x9b\u202e") & set(shown)
    assert shown.count("]52;c;eA==") == 4  # it can be read, though
    assert not any(line.startswith("not a line") for line in shown.splitlines())


def test_keys_that_the_format_owns_are_renamed_not_refused(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(logging_format="json")
    logs.get("x").error("odd keys", message="m", event="e", level="l", logger="g", ts="t", name="n")
    line = json.loads(capsys.readouterr().err)
    assert (line["msg"], line["message"], line["event_"], line["level_"]) == ("odd keys", "m", "e", "l")


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(ValueError, match="'xml': expected text or json"):
        logs.configure(logging_format="xml")


def test_importing_and_naming_a_logger_does_not_load_the_library() -> None:
    code = "import sys; from runtime import logs; logs.get('x').debug('off'); print('structlog' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_lines_need_no_library_of_colours_and_leave_it_to_those_who_do() -> None:
    code = (
        "import sys; from runtime import logs; logs.configure(); logs.get('x').error('said', a=1);"
        "found = 'rich' in sys.modules; import rich; print(found, rich.__name__)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False rich"
    assert "said" in answer.stderr

"""The routes: a page without inline script, its files, one pod's decision, and errors in the services' own words."""

import json
import pathlib
import re

import pytest

from console import app
from console.sources import SourceError
from simulator.report import page
from tests.unit.console import pages

MARKUP = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function"
STATIC = pathlib.Path(app.__file__).parent / "static"


def test_the_page_has_no_script_and_no_style_of_its_own() -> None:
    text = pages.browser().get("/").text
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert "<style" not in text
    assert not re.search(r"\s(style|on\w+)=", text)


def test_every_address_on_the_page_is_relative_and_there() -> None:
    client = pages.browser()
    addresses = re.findall(r'(?:src|href)="([^"#]+)"', client.get("/").text)
    assert len(addresses) > 5
    for address in addresses:
        assert not address.startswith(("/", "http")), "it would not be found behind a prefix"
        assert client.get(f"/{address}").status_code == 200, address


def test_console_and_report_have_one_scale_of_colours() -> None:
    def colours(path: pathlib.Path) -> list[tuple[str, str]]:
        return re.findall(r"--(c[0-5]): ?(#\w+)", path.read_text(encoding="utf-8"))

    own = colours(STATIC / "console.css")
    assert len(own) == 10, "six by day, and by night the three blues and a red"
    assert colours(pathlib.Path(page.__file__).with_name("page.css")) == own


def test_scripts_build_the_page_from_texts_and_ask_nobody_else() -> None:
    for path in STATIC.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(MARKUP, text), path
        assert not [url for url in re.findall(r"https?://[^'\" ]+", text) if "www.w3.org" not in url], path


def test_the_library_is_vendored_with_its_licence() -> None:
    assert "MIT" in (STATIC / "vendor" / "uPlot.LICENSE").read_text(encoding="utf-8")


def test_names_on_the_page_are_texts() -> None:
    text = pages.browser(title="<img src=x onerror=alert(1)>").get("/").text
    assert "<img src=x" not in text
    assert "&lt;img src=x" in text


def test_behind_a_prefix_everything_is_under_it() -> None:
    client = pages.client(pages.page(pages.doors(), prefix="/tools/evenload"))
    assert client.get("/tools/evenload/").status_code == 200
    assert client.get("/tools/evenload/static/main.js").status_code == 200
    assert client.get("/").status_code == 404


def test_signing_in_stays_under_the_prefix() -> None:
    client = pages.client(pages.page(pages.doors(), prefix="/evenload", token=pages.TOKEN))
    assert client.get("/evenload/").location == "/evenload/sign-in"
    answer = client.post("/evenload/sign-in", data={"token": pages.TOKEN})
    assert answer.location == "/evenload/"
    assert "Path=/evenload/" in answer.headers["Set-Cookie"]
    assert client.get("/evenload/").status_code == 200


def test_a_decision_is_looked_for_in_every_replica() -> None:
    old = pages.Replica({"/decisions": {"decisions": [{"at_seconds": 1.0}]}})
    new = pages.Replica({"/decisions": {"decisions": [{"at_seconds": 2.0}]}})
    client = pages.browser(extenders=lambda: (old, new))
    answer = client.get("/api/decision?namespace=shop&pod=web-1").get_json()
    assert [one["at_seconds"] for one in answer["decisions"]] == [2.0, 1.0]
    assert old.asked == [("/decisions", {"namespace": "shop", "pod": "web-1", "limit": "10"})]


@pytest.mark.parametrize("query", ["", "?namespace=shop", f"?namespace=shop&pod={'x' * 300}", "?pod=web-1"])
def test_a_pod_without_a_name_is_refused(query: str) -> None:
    assert pages.browser().get(f"/api/decision{query}").status_code == 400


def test_a_silent_service_is_named_with_the_reason() -> None:
    silent = pages.Replica({"/decisions": SourceError("evenload-extender-0 gives no answer")})
    answer = pages.browser(extenders=lambda: (silent,)).get("/api/decision?namespace=a&pod=b")
    assert answer.status_code == 503
    assert pages.json_of(answer)["message"] == "evenload-extender-0 gives no answer"


def test_a_story_has_a_beginning_and_a_later_end() -> None:
    client = pages.browser(story=lambda begin, end: {"begin": begin, "end": end})
    assert client.get("/api/story?begin=1&end=2.5").json == {"begin": 1.0, "end": 2.5}
    for query in ("", "?begin=2&end=1", "?begin=nan&end=2", "?begin=1&end=inf", "?begin=-1&end=1", "?begin=a&end=2"):
        assert client.get(f"/api/story{query}").status_code == 400, query


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/pods?node=a"),
        ("GET", "/api/story?begin=1&end=2"),
        ("POST", "/api/policy/check"),
        ("POST", "/api/what-if"),
    ],
)
def test_what_cannot_be_asked_here_has_no_route(method: str, path: str) -> None:
    assert pages.browser().open(path, method=method).status_code == 404


def test_no_route_changes_a_cluster() -> None:
    names = ("pods", "check", "what_if", "effectiveness")
    rules = pages.page(pages.doors(**dict.fromkeys(names, lambda *_: {}))).url_map.iter_rules()
    writing = {rule.rule for rule in rules if (rule.methods or set()) - {"GET", "HEAD", "OPTIONS"}}
    assert writing == {"/sign-in", "/api/policy/check", "/api/what-if"}


def test_a_policy_that_is_no_text_or_too_long_is_refused() -> None:
    client = pages.browser(check=lambda text, in_force: {"text": text})
    assert client.post("/api/policy/check", data=b"\xff\xfe").status_code == 400
    assert client.post("/api/policy/check", data=b"x" * (app.TEXT_LIMIT + 2000)).status_code == 413
    assert json.loads(client.post("/api/policy/check", data="é".encode()).data) == {"text": "é"}

"""Who may ask the console: by the names of this machine, or with the token; and no page may do more than this one."""

import pytest

from console import board
from tests.unit.console import pages

WITH_TOKEN = pages.page(pages.doors(), token=pages.TOKEN)


@pytest.mark.parametrize("host", ["localhost:8088", "127.0.0.1:8088", "[::1]:8088", "LOCALHOST"])
def test_this_machine_is_served_by_its_own_names(host: str) -> None:
    assert pages.browser().get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example:8088", "127.0.0.1.evil.example", "10.0.0.1.evil.example", "localhost.evil.example"]
)
def test_a_web_page_that_gives_this_machine_another_name_is_refused(host: str) -> None:
    answer = pages.browser().get("/", headers={"Host": host})
    assert answer.status_code == 403
    assert host in pages.json_of(answer)["message"]


def test_other_names_are_fine_where_it_listens_beyond_this_machine() -> None:
    page = pages.page(pages.doors(), local=False)
    assert pages.client(page).get("/", headers={"Host": "evenload.example"}).status_code == 200


def test_a_page_of_another_site_may_post_nothing() -> None:
    client = pages.browser(check=lambda text, in_force: {})
    post = {"path": "/api/policy/check", "data": "x"}
    assert client.post(**post, headers={"Origin": "http://evil.example"}).status_code == 403
    assert client.post(**post, headers={"Origin": "http://localhost"}).status_code == 200
    assert client.post(**post, headers={"Origin": "null"}).status_code == 403


@pytest.mark.parametrize(
    "headers", [{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "http://evil.example"}]
)
def test_a_page_of_another_site_opens_no_stream_and_a_link_opens_the_page(headers: dict[str, str]) -> None:
    client = pages.browser()
    assert client.get("/api/stream", headers=headers).status_code == 403
    assert client.get("/metrics", headers=headers).status_code == 403
    linked = {name: value for name, value in headers.items() if name != "Origin"}  # browsers send none of a link
    assert client.get("/", headers=linked).status_code == 200


def test_a_place_stays_for_the_person_before_the_page() -> None:
    """Streams of clients that do not say whose page they are take all but the last places."""
    topics = board.Board()
    client = pages.client(pages.page(pages.doors(), topics))
    held = []
    while (answer := client.get("/api/stream", buffered=False)).status_code == 200:
        held.append(answer)
    person = client.get("/api/stream", headers={"Sec-Fetch-Site": "same-origin"}, buffered=False)
    assert (len(held), answer.status_code, person.status_code) == (board.STREAMS - board.RESERVED, 503, 200)
    for one in (*held, answer, person):
        one.close()


@pytest.mark.parametrize("path", ["/api/stream", "/api/decision?namespace=a&pod=b", "/metrics", "/configz"])
def test_without_the_token_nothing_is_told(path: str) -> None:
    assert pages.client(WITH_TOKEN).get(path).status_code == 401


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/sign-in", "/static/console.css"])
def test_probes_and_the_way_in_are_open(path: str) -> None:
    assert pages.client(WITH_TOKEN).get(path).status_code == 200


def test_a_person_signs_in_once() -> None:
    client = pages.client(WITH_TOKEN)
    sent = client.get("/")
    assert (sent.status_code, sent.location) == (302, "/sign-in")
    assert client.post("/sign-in", data={"token": "wrong"}).status_code == 401
    assert client.get("/").status_code == 302
    answer = client.post("/sign-in", data={"token": pages.TOKEN})
    cookie = answer.headers["Set-Cookie"]
    assert pages.TOKEN not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert client.get("/").status_code == 200


def test_a_program_brings_the_token_itself() -> None:
    client = pages.client(WITH_TOKEN)
    assert client.get("/metrics", headers={"Authorization": f"Bearer {pages.TOKEN}"}).status_code == 200
    assert client.get("/metrics", headers={"Authorization": "Bearer no"}).status_code == 401
    assert client.get("/metrics", headers={"Authorization": pages.TOKEN}).status_code == 401


@pytest.mark.parametrize("path", ["/", "/static/main.js", "/nowhere", "/livez"])
def test_no_answer_lets_a_browser_run_what_is_not_ours(path: str) -> None:
    headers = pages.browser().get(path).headers
    policy = dict(one.strip().split(" ", 1) for one in headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"

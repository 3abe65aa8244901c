"""The console in Chromium: it loads, lives, is used by keyboard, fits small screens, and runs nobody's names."""

import collections.abc
import re

import pytest
from playwright.sync_api import expect

from console.sources import RunningPod
from tests.browser import serving
from tests.browser.conftest import Tab
from tests.unit.console import pages

LOADS = {"node-10": 0.4, "node-2": 0.9, "node-1": 0.2, "node-3": None}
MARKUP = "<img src=x onerror=\"document.title='run'\">"


@pytest.fixture
def console() -> collections.abc.Iterator[serving.Console]:
    no_load = {"state": "usable", "usable": True, "penalty": 0, "hot": {}}
    broken = {"metric": "cpu_avg_5m", "limit": 0.65, "value": 0.9, "broken": True}
    explained = serving.decision("web-1") | {
        "nodes": [
            no_load
            | {"name": "cool", "rules": [], "terms": {"cpu_avg_5m": 5.1, "cpu_max_1h": 2.0},
               "raw_score": 7.1, "base": 7.1, "score": 7, "rejected": None},
            no_load
            | {"name": "hot", "rules": [broken], "terms": {}, "raw_score": None, "base": None, "score": None,
               "rejected": "cpu_avg_5m over 0.65"},
        ],
        "means": [["cpu_avg_5m", "cpu_max_1h"]], "omitted": 0, "estimate": None,
    }  # fmt: skip
    extender = pages.Replica({"/decisions": {"decisions": [explained, explained | {"verb": "filter"}]}})
    pod = RunningPod("shop", MARKUP, "Deployment/web", "Running", 250.0, 2.0**20, cpu_used_millicores=412.0)
    doors = pages.doors(extenders=lambda: (extender,), pods=lambda node: [pod])
    with serving.Console(doors).served() as made:
        yield made


def test_it_shows_what_there_is_when_it_is_opened(console: serving.Console, tab: Tab) -> None:
    tab.open(
        console, nodes=serving.nodes(LOADS), decisions=[serving.decision("web-1")], plan=serving.plan(), evictions=[]
    )
    expect(tab.page.locator("#connection")).to_have_text("live")
    expect(tab.page.locator("#nodes-summary")).to_contain_text("4 nodes; cpu_avg_5m: mean 50 %")
    expect(tab.page.locator("#loop")).to_contain_text("3 of 4 nodes have a fresh reading")
    expect(tab.page.locator("#loop")).to_contain_text("1 of 4")
    expect(tab.page.locator("#decision-list")).to_contain_text("shop/web-1")
    expect(tab.page.locator("#plan-body")).to_contain_text("shop/web-1")
    expect(tab.page.locator("#plan-body")).to_contain_text("Nothing is evicted in this mode")


def test_a_node_is_reached_and_read_by_keyboard(console: serving.Console, tab: Tab) -> None:
    tab.open(console, nodes=serving.nodes(LOADS))
    focus_map(tab, "4 nodes")
    names = []
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "End", "Home"):
        tab.page.keyboard.press(key)
        names.append(tab.page.locator("#node h3").first.text_content())
    assert names == ["node-2", "node-10", "node-1", "node-3", "node-3", "node-1", "node-3", "node-2"], "hottest first"
    expect(tab.page.locator("#node")).to_contain_text("New pods are kept away: cpu_avg_5m over 0.65")
    expect(tab.page.locator("#pods td.number")).to_have_text(["412m of 250m", "- of 1 Mi"])


def test_a_node_that_takes_no_pods_says_why_beside_its_score(console: serving.Console, tab: Tab) -> None:
    tab.open(console, nodes=serving.nodes(LOADS) | {"conditions": {"node-2": ["NotReady", "MemoryPressure"]}})
    focus_map(tab, "4 nodes")
    tab.page.keyboard.press("Home")
    text = "kube-scheduler places no pods here: NotReady, MemoryPressure"
    expect(tab.page.locator("#node")).to_contain_text(text)
    tab.page.keyboard.press("ArrowRight")
    expect(tab.page.locator("#node h3").first).to_have_text("node-10")
    expect(tab.page.locator("#node")).not_to_contain_text("kube-scheduler places no pods")


def test_every_control_is_reached_by_tab(console: serving.Console, tab: Tab) -> None:
    tab.open(console, nodes=serving.nodes(LOADS), decisions=[serving.decision("web-1")])
    expect(tab.page.locator("#decision-list td button")).to_have_count(1)
    reached = set()
    for _ in range(80):
        tab.page.keyboard.press("Tab")
        reached.add(tab.page.evaluate("document.activeElement.id || document.activeElement.dataset.key || ''"))
    assert {"metric", "order", "find", "map", "text", "decision shop/web-1/uid-web-1"} <= reached


def test_nodes_are_sorted_by_the_numbers_in_their_names_and_found(console: serving.Console, tab: Tab) -> None:
    tab.open(console, nodes=serving.nodes(LOADS))
    tab.page.locator("#order").select_option("name")
    focus_map(tab, "4 nodes")
    order = []
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowRight"):
        tab.page.keyboard.press(key)
        order.append(tab.page.locator("#node h3").first.text_content())
    assert order == ["node-1", "node-2", "node-3", "node-10"]
    tab.page.locator("#find").fill("node-1")
    expect(tab.page.locator("#nodes-summary")).to_contain_text("2 nodes")


def test_pools_are_offered_where_there_are_some(console: serving.Console, tab: Tab) -> None:
    tab.open(console, nodes=serving.nodes(LOADS))
    expect(tab.page.locator("#nodes-summary")).to_contain_text("4 nodes")
    expect(tab.page.locator("#pool-choice")).to_be_hidden()
    console.show(nodes=serving.nodes(LOADS) | {"pools": ["gpu", "gpu", "web", ""]})
    tab.page.locator("#pool").select_option("gpu")
    expect(tab.page.locator("#nodes-summary")).to_contain_text("2 nodes")


def test_a_decision_says_why_and_what_the_others_lacked(console: serving.Console, tab: Tab) -> None:
    tab.open(console, nodes=serving.nodes(LOADS), decisions=[serving.decision("web-1")])
    tab.page.locator("#decision-list td button").click()
    story = tab.page.locator("#decision")
    expect(story).to_contain_text("cpu_avg_5m 5.10 + cpu_max_1h 2.00")
    expect(story).to_contain_text("90 % with what is expected, limit 65 %: 25.0 points too much")
    assert tab.page.evaluate("document.activeElement.dataset.key") == "decision shop/web-1/uid-web-1", "focus is kept"


def test_each_pod_that_was_decided_about_says_where_it_went(console: serving.Console, tab: Tab) -> None:
    cases: dict[str, tuple[dict[str, object], str]] = {
        "alone": ({}, "cool"),
        "tied": ({"ties": 3}, "cool, one of 3 best"),
        "outweighed": ({"bound_to_best": False}, "cool, below the best"),
        "waiting": ({"bound_to": "", "bound_to_best": None}, "not placed yet"),
        "ended": ({"bound_to": None, "bound_to_best": None}, "gone"),
    }
    tab.open(console, decisions=[serving.decision(pod) | fields for pod, (fields, _) in cases.items()])
    expect(tab.page.locator("#decision-list tbody td:last-child")).to_have_text([words for _, words in cases.values()])


def test_tables_sort_by_any_column_and_stay_so(console: serving.Console, tab: Tab) -> None:
    pods = ("web-10", "web-9", "db-0")
    use = {"web-10": 70.0, "web-9": 1500.0, "db-0": None}
    node = serving.plan()["nodes"][0]
    rows = [node["candidates"][0] | {"pod": pod, "cpu_millicores": use[pod]} for pod in pods]
    plan = serving.plan() | {"nodes": [node | {"candidates": rows}]}
    tab.open(console, plan=plan)
    shown = tab.page.locator("#plan-body tbody td:first-child")
    expect(shown).to_have_text([f"shop/{pod}" for pod in pods])
    for header, order in (
        ("CPU", ("web-9", "web-10", "db-0")), ("CPU", ("web-10", "web-9", "db-0")), ("CPU", pods),
        ("pod", ("db-0", "web-9", "web-10")),
    ):  # fmt: skip
        tab.page.locator("#plan-body th button", has_text=re.compile(f"^{header}$")).click()
        expect(shown).to_have_text([f"shop/{pod}" for pod in order])
    console.show(plan=plan | {"summary": "3 stay"})
    expect(tab.page.locator("#plan-body")).to_contain_text("3 stay")
    expect(shown).to_have_text(["shop/db-0", "shop/web-9", "shop/web-10"])
    expect(tab.page.locator("#plan-body th").first).to_have_attribute("aria-sort", "ascending")


def test_an_address_shows_the_same_node_pod_and_moment_again(console: serving.Console, tab: Tab) -> None:
    evictions = [serving.eviction(3), serving.eviction(2, "api-1", at="2026-11-21T02:00:00Z"), serving.eviction(1)]
    tab.open(
        console, nodes=serving.nodes(LOADS), decisions=[serving.decision("web-1")], plan=serving.plan(),
        evictions=evictions, policy={"policy": {}},
    )  # fmt: skip
    focus_map(tab, "4 nodes")
    tab.page.keyboard.press("End")
    tab.page.locator("#decision-list td button").click()
    tab.page.get_by_role("button", name="shop/api-1").click()
    tab.page.wait_for_url("**/#at=2026-11-21T02:00:00Z&eviction=2&pod=shop/web-1&node=node-3")
    tab.page.goto("about:blank")
    tab.page.go_back()
    expect(tab.page.locator("#eviction h3").first).to_have_text("shop/api-1")
    expect(tab.page.get_by_role("heading", name="Evictions", exact=True)).to_be_in_viewport()
    expect(tab.page.locator("#node h3").first).to_have_text("node-3")
    expect(tab.page.locator("#decision h3")).to_have_text("shop/web-1")


def test_links_lead_to_a_node_and_to_a_moment(console: serving.Console, tab: Tab) -> None:
    times = {"late-1": "2026-11-21T03:50:00Z", "api-1": "2026-11-21T02:00:00Z", "web-1": "2026-11-21T01:00:00Z"}
    evictions = [serving.eviction(3 - at, pod, at=time) for at, (pod, time) in enumerate(times.items())]
    tab.open(console, nodes=serving.nodes({"cool": 0.1, "hot": 0.9, "hotter": 0.95}), evictions=evictions)
    tab.page.get_by_role("button", name="shop/web-1").click()
    tab.page.locator("#evictions").get_by_role("link", name="hot", exact=True).first.click()
    expect(tab.page.locator("#node h3").first).to_have_text("hot")
    expect(tab.page.locator("#map")).to_be_in_viewport()
    expect(tab.page.locator("#eviction h3").first).to_have_text("shop/web-1")
    tab.page.goto(f"{console.url}#at=2026-11-21T01:50:00Z")
    expect(tab.page.locator("#eviction h3").first).to_have_text("shop/api-1")
    tab.page.goto(f"{console.url}#eviction=99&pod=shop/nobody&order=no&metric=no")
    expect(tab.page.locator("#evictions")).to_contain_text("99, is not among the newest 3")
    expect(tab.page.locator("#nodes-summary")).to_contain_text("3 nodes; cpu_avg_5m")


def test_an_address_holds_though_a_choice_before_it_is_not_written_yet(console: serving.Console, tab: Tab) -> None:
    tab.open(console, evictions=[serving.eviction(2, "api-1", at="2026-11-21T02:00:00Z"), serving.eviction(1)])
    tab.page.get_by_role("button", name="shop/web-1").evaluate(
        """button => {
          const later = [], setTimeout = window.setTimeout
          window.setTimeout = wait => later.push(wait)
          button.click()
          window.setTimeout = setTimeout
          location.hash = 'at=2026-11-21T02:00:00Z'
          for (const run of later) run()  // before the event of the new address
        }"""
    )
    expect(tab.page.locator("#eviction h3").first).to_have_text("shop/api-1")


def test_a_decision_of_shadow_mode_says_that_it_was_not_sent_and_an_older_one_its_reasons(tab: Tab) -> None:
    shadow = serving.decision("web-1") | {"shadow": True, "assumed": ""}
    explained = shadow | {"nodes": [], "means": [], "omitted": 0, "estimate": None}
    both = [explained, explained | {"verb": "filter"}]
    doors = pages.doors(extenders=lambda: (pages.Replica({"/decisions": {"decisions": both}}),))
    with serving.Console(doors).served() as console:
        tab.open(console, nodes=serving.nodes(LOADS), decisions=[shadow])
        expect(tab.page.locator("#decision-list")).to_contain_text("cool")
        tab.page.locator("#decision-list td button").click()
        expect(tab.page.locator("#decision")).to_contain_text("Shadow mode: kube-scheduler was told that every node")
        expect(tab.page.locator("#decision")).to_contain_text("cool was the only node to choose from.")
        expect(tab.page.locator("#decision")).to_contain_text("1 node did not pass: 1 cpu_avg_5m over 0.65")


def test_an_eviction_has_its_predicted_and_its_measured_load(console: serving.Console, tab: Tab) -> None:
    tab.open(console, evictions=[serving.eviction(2, "api-1"), serving.eviction(1)])
    expect(tab.page.locator("#timeline circle")).to_have_count(2)
    tab.page.get_by_role("button", name="shop/web-1").click()
    expect(tab.page.locator("#eviction h3").first).to_have_text("shop/web-1")
    expect(tab.page.locator("#eviction .u-legend")).to_contain_text("predicted")
    expect(tab.page.locator("#eviction")).to_contain_text("-5.0 points from what was predicted")


def test_a_service_that_is_down_is_shown_as_down_with_its_last_figures(console: serving.Console, tab: Tab) -> None:
    tab.open(console, nodes=serving.nodes(LOADS), plan=serving.plan())
    expect(tab.page.locator("#plan-body")).to_contain_text("shop/web-1")
    console.silence("plan", "the descheduler gives no answer: connection refused")
    card = tab.page.locator("#loop a.bad")
    expect(card).to_contain_text("no answer")
    expect(card).to_contain_text("connection refused")
    expect(tab.page.locator("#plan-body")).to_contain_text("connection refused; this plan is of 2026-11-21T04:00:00Z")
    expect(tab.page.locator("#plan-body")).to_contain_text("shop/web-1")


@pytest.mark.parametrize(("under", "word"), [(0, "bad"), (3, "warn"), (5, "ok")])
def test_a_bad_share_of_relieved_nodes_is_never_green(
    console: serving.Console, tab: Tab, under: int, word: str
) -> None:
    moved = [serving.eviction(at, at="2026-11-21T03:50:00Z", stayed_under_line=at < under) for at in range(5)]
    tab.open(console, evictions=moved, plan=serving.plan() | {"evictions": []}, breakers={"breakers": []})
    expect(tab.page.locator("#loop a", has_text="evictions made today")).to_have_class(word)
    expect(tab.page.locator("#loop a", has_text="would evict now")).to_have_class("warn")


def test_nothing_is_green_that_was_not_read(console: serving.Console, tab: Tab) -> None:
    young = serving.eviction(1, at="2026-11-21T03:50:00Z", stayed_under_line=None)
    plan = serving.plan() | {"partial": True, "nodes": [], "evictions": []}
    tab.open(console, nodes=serving.nodes({"a": None, "b": None}), evictions=[young], plan=plan, decisions=[])
    expect(tab.page.locator("#loop a", has_text="would evict now")).to_contain_text("unknown")
    expect(tab.page.locator("#loop a", has_text="over a limit")).to_contain_text("2 nodes not known")
    expect(tab.page.locator("#plan-body")).to_contain_text("Whether a node is overloaded is not known")
    expect(tab.page.locator("#node")).to_contain_text("the load of this node is not known")
    expect(tab.page.locator("#loop a.ok")).to_have_count(0)
    expect(tab.page.locator("main .good")).to_have_count(0)


def test_the_story_of_a_night_stays_in_the_address(tab: Tab) -> None:
    asked = []

    def story(begin: float, end: float) -> dict[str, object]:
        asked.append((begin, end))
        happened = {"at_seconds": serving.NOW - 60, "kind": "eviction", "node": "hot", "text": f"evicted {MARKUP}"}
        return {"summary": ["evictions 1", "b", "c"], "notKnown": {"alerts": "refused"}, "happenings": [happened]}

    evictions = [serving.eviction(2), serving.eviction(1, "api-1", at="2026-11-21T03:59:00Z")]
    with serving.Console(pages.doors(story=story, effectiveness=lambda span: {})).served() as console:
        thin = {"figures": {}, "covered_seconds": 370.0, "moments": []}
        tab.open(console, nodes=serving.nodes(LOADS), evictions=evictions, effectiveness=thin)
        expect(tab.page.locator("#effect-body")).to_contain_text("Thin data: 6 m of 7 d.")
        lines = tab.page.locator("#story-lines")
        expect(lines).to_contain_text("such as 12h")
        tab.page.locator("#since").fill("2026-11-21T02:00")
        tab.page.locator("#until").fill("1h")
        tab.page.locator("#until").press("Enter")
        expect(lines).to_contain_text("evicted <img src=x")
        expect(lines).to_contain_text("Not known: alerts: refused")
        tab.page.wait_for_url("**/#since=2026-11-21T02:00&until=1h")
        tab.page.reload()
        expect(lines).to_contain_text("evictions 1")
        assert {round(begin) for begin, _ in asked} == {serving.NOW - 7200}
        assert [serving.NOW - 3600 <= end < serving.NOW - 3540 for _, end in asked] == [True, True]
        lines.get_by_role("link", name="03:59:00").click()
        expect(tab.page.locator("#eviction h3").first).to_have_text("shop/api-1")
        tab.page.locator("#since").fill("last night")
        tab.page.get_by_role("button", name="Show").click()
        expect(lines).to_contain_text("Write a span such as 12h")


def test_a_problem_marks_its_line_and_a_replay_says_how_far_it_is(tab: Tab) -> None:
    problem = {"line": 3, "column": 1, "path": "filter", "message": "expected a mapping"}
    doors = pages.doors(
        check=lambda text, _: {"problems": [problem] if "filter" in text else [], "differences": []},
        what_if=lambda *_: {},
    )
    with serving.Console(doors).served() as console:
        tab.open(console, policy={"policy": {"kind": "LoadPolicy"}})
        text, mark = tab.page.locator("#text"), tab.page.locator("#marks i")
        expect(text).to_have_value("kind: LoadPolicy\n")
        text.fill("kind: LoadPolicy\n\nfilter: no\n")
        expect(mark).to_have_count(1)
        expect(text).to_have_attribute("aria-invalid", "true")
        area, band = text.bounding_box(), mark.bounding_box()
        assert area is not None
        assert band is not None
        line = tab.page.evaluate("parseFloat(getComputedStyle(document.querySelector('#text')).lineHeight)")
        assert 2 * line <= band["y"] - area["y"] <= 2.5 * line, "the third line"
        assert band["height"] == line
        text.fill("kind: LoadPolicy\n")
        expect(mark).to_have_count(0)
        console.show(whatif={"state": "running", "share": 0.42})
        expect(tab.page.locator("#whatif")).to_contain_text("twice: 42 %")
        assert tab.page.locator("#whatif progress").get_attribute("value") == "0.42"


def test_one_sentence_says_that_all_services_are_down(console: serving.Console, tab: Tab) -> None:
    tab.open(
        console, nodes=serving.nodes(LOADS), plan=serving.plan(), decisions=[], evictions=[], policy={"policy": {}}
    )
    expect(tab.page.locator("#plan-body")).to_contain_text("shop/web-1")
    refused = "connection refused"
    for topic in ("nodes", "decisions", "plan", "evictions", "policy"):
        console.silence(topic, refused)
    expect(tab.page.get_by_role("alert")).to_have_text(
        "No service of Evenload answers: connection refused. The figures are of 04:00:00. "
        "On a terminal, evenload doctor looks for the cause."
    )
    expect(tab.page.locator("#plan-body")).to_contain_text("shop/web-1")
    expect(tab.page.get_by_text(refused).locator("visible=true")).to_have_count(1)
    console.show(nodes=serving.nodes(LOADS))
    console.silence("nodes", "")
    expect(tab.page.locator("#loop")).to_contain_text("nodes over a limit")


def test_the_bar_stays_and_says_which_cluster_in_which_mode_how_fresh(console: serving.Console, tab: Tab) -> None:
    tab.open(
        console, nodes=serving.nodes(LOADS), plan=serving.plan(), evictions=[serving.eviction(1)],
        policy={"policy": {"extender": {"mode": "Shadow"}}},
    )  # fmt: skip
    bar = tab.page.get_by_role("banner")
    expect(bar).to_contain_text("descheduler Observe")
    expect(tab.page.locator("#nodes-summary")).to_contain_text("4 nodes")  # figures that come later move what is below
    tab.page.get_by_role("link", name="Policy", exact=True).click()
    expect(tab.page.get_by_role("link", name="Policy", exact=True)).to_have_attribute("aria-current", "")
    expect(tab.page.get_by_role("heading", name="Policy", exact=True)).to_be_in_viewport()
    expect(bar).to_be_in_viewport(ratio=1)
    for text in ("test", "extender Shadow", "descheduler Observe", "policy 0123456789ab"):
        expect(bar).to_contain_text(text)
    expect(bar).to_contain_text(re.compile(r"data \d\d s old"))
    console.show(plan=serving.plan() | {"policy": "fedcba987654"})
    expect(bar).to_contain_text("policies differ: extender 0123456789ab, descheduler fedcba987654")
    console.show(nodes=serving.nodes(LOADS, age_seconds=400))
    expect(bar.locator(".bad")).to_have_text("data 6 m old")


def test_a_console_that_is_gone_says_that_figures_are_old(tab: Tab) -> None:
    with serving.Console(pages.doors()).served() as console:
        tab.open(console, nodes=serving.nodes(LOADS))
        expect(tab.page.locator("#nodes-summary")).to_contain_text("4 nodes")
    expect(tab.page.locator("#connection")).to_contain_text("figures are old")
    expect(tab.page.locator("#nodes-summary")).to_contain_text("4 nodes")


def test_nobodys_name_is_run(console: serving.Console, tab: Tab) -> None:
    loads = {MARKUP: 0.9, f"b{MARKUP}": 0.1}
    named = serving.nodes(loads) | {"reasons": [MARKUP], "states": [MARKUP, MARKUP], "pools": [MARKUP, "b"]}
    tab.open(
        console,
        nodes=named | {"policy": MARKUP},
        decisions=[serving.decision(MARKUP, namespace=MARKUP)],
        plan=serving.plan(MARKUP, detail=MARKUP) | {"summary": MARKUP, "mode": MARKUP},
        evictions=[serving.eviction(1, MARKUP, message=MARKUP, node=MARKUP, workload=MARKUP, metric=MARKUP)],
        breakers={"breakers": [dict.fromkeys(("namespace", "workload", "failures", "state", "until"), MARKUP)]},
        policy={"policy": {MARKUP: MARKUP}, "trouble": MARKUP},
    )  # fmt: skip
    focus_map(tab, "2 nodes")
    tab.page.keyboard.press("Home")
    expect(tab.page.locator("#pods")).to_contain_text("<img src=x")
    tab.page.locator("#decision-list td button").click()
    for part in ("#plan-body", "#evictions-body", "#decision-list", "#node", "#policy-state"):
        expect(tab.page.locator(part)).to_contain_text("<img src=x")
    assert tab.page.locator("img[src=x]").count() == 0
    assert "Evenload" in tab.page.title()


def test_the_browser_asks_nobody_else(console: serving.Console, tab: Tab) -> None:
    asked: list[str] = []
    tab.page.on("request", lambda request: asked.append(request.url))
    tab.open(console, nodes=serving.nodes(LOADS), evictions=[serving.eviction(1)])
    expect(tab.page.locator("#timeline")).to_be_visible()
    assert asked
    assert all(url.startswith(console.url) or url.startswith("data:") for url in asked)


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_it_fits_the_screen(console: serving.Console, tab: Tab, width: int) -> None:
    long = "a-pod-with-a-very-long-name-of-a-job-that-somebody-generated-7f9c4d6b8-x2z4q"
    console.show(
        nodes=serving.nodes(LOADS), decisions=[serving.decision(long)], plan=serving.plan(long),
        evictions=[serving.eviction(1, long)], policy={"policy": {"kind": "LoadPolicy"}},
    )  # fmt: skip
    tab.page.set_viewport_size({"width": width, "height": 900})
    tab.page.goto(console.url)
    expect(tab.page.locator("#timeline")).to_be_visible()
    tab.page.locator("#decision-list td button").click()
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_phone_gives_the_reason_of_a_plan_a_line_of_its_own(console: serving.Console, tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 400, "height": 900})
    tab.open(console, plan=serving.plan())
    box = tab.page.locator("#plan-body td", has_text="cools the node most").bounding_box()
    assert box is not None
    assert box["width"] > 300


def test_five_thousand_nodes_are_drawn_and_followed(console: serving.Console, tab: Tab) -> None:
    loads: dict[str, float | None] = {f"node-{at}": at % 100 / 100 for at in range(5000)}
    tab.open(console, nodes=serving.nodes(loads))
    expect(tab.page.locator("#nodes-summary")).to_contain_text("5000 nodes")
    box = tab.page.locator("#map").bounding_box()
    assert box is not None
    assert box["height"] < 1200, "all of them are looked at as one"
    tab.page.locator("#map").click(position={"x": 3, "y": 3})
    expect(tab.page.locator("#node h3").first).to_have_text(re.compile(r"node-\d*99"))
    console.show(nodes=serving.nodes(loads | {"node-0": 1.0}))
    expect(tab.page.locator("#nodes-summary")).to_contain_text("1701 over a limit")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_what_is_behind_them(console: serving.Console, tab: Tab, scheme: str) -> None:
    """WCAG 2.2, 1.4.3: 4.5 to 1 for texts."""
    tab.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    tab.page.goto(console.url)
    colours = {
        name: luminance(colour_of(tab, name)) for name in ("bg", "soft", "fg", "dim", "good", "bad", "warn", "load")
    }
    for text in ("fg", "dim", "good", "bad", "warn", "load"):
        for behind in ("bg", "soft"):
            assert contrast(colours[text], colours[behind]) >= 4.5, (text, behind)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_hot_and_cool_are_told_apart_without_hue(console: serving.Console, tab: Tab, scheme: str) -> None:
    """A deuteranope sees lightness go one way, and hottest and coolest further apart than any neighbours."""
    tab.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    tab.page.goto(console.url)
    steps = [deuteranope(colour_of(tab, f"c{at}")) for at in range(6)]
    for one in range(6):
        for other in range(one):
            distance = sum((a - b) ** 2 for a, b in zip(steps[one], steps[other], strict=True)) ** 0.5
            assert distance > 30, f"steps {other} and {one} look alike: {distance:.0f} of 441"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_node_over_the_line_of_evictions_is_red(console: serving.Console, tab: Tab, scheme: str) -> None:
    tab.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    thresholds = {"cpu_avg_5m": {"evictAbove": 0.7, "evictUntil": 0.6}}
    tab.open(
        console, nodes=serving.nodes({"a": 0.72, "b": 0.66, "c": 0.6}),
        policy={"policy": {"descheduler": {"thresholds": thresholds}}},
    )  # fmt: skip
    expect(tab.page.locator("#legend")).to_contain_text("to 65 %over 65 %: no new podsover 68 %over 70 %: overloaded")
    red, green, blue = pixel(tab, 5, 5)
    assert red > 2 * max(green, blue)
    for name in ("bad", "c5"):
        red, green, blue = colour_of(tab, name)
        assert red > 2 * max(green, blue), "red stays red"


def test_cells_have_figures_on_a_phone_and_names_where_there_is_room(console: serving.Console, tab: Tab) -> None:
    tab.page.add_init_script(
        "const write = CanvasRenderingContext2D.prototype.fillText; window.texts = [];"
        "CanvasRenderingContext2D.prototype.fillText = function (...all) { texts.push(all[0]); write.apply(this, all) }"
    )
    loads: dict[str, float | None] = {f"ip-10-0-132-{at}.eu-west-1.compute.internal": at / 100 for at in range(12)}
    tab.open(console, nodes=serving.nodes(loads))
    expect(tab.page.locator("#nodes-summary")).to_contain_text("12 nodes")
    assert "11" in tab.page.evaluate("texts")
    assert [text for text in tab.page.evaluate("texts") if text.startswith("…") and text.endswith("132-11")]
    tab.page.set_viewport_size({"width": 400, "height": 800})
    console.show(nodes=serving.nodes({f"node-{at}": at / 100 for at in range(100)}))
    expect(tab.page.locator("#nodes-summary")).to_contain_text("100 nodes")
    assert "99" in tab.page.evaluate("texts")


def test_the_hottest_node_is_chosen_at_the_start_and_stays(console: serving.Console, tab: Tab) -> None:
    warm = serving.nodes(LOADS)
    memory = {"values": warm["values"] | {"memory_avg_5m": [100, 100, 950, 100]}, "limits": {"memory_avg_5m": 0.65}}
    tab.open(console, nodes=warm | memory)
    expect(tab.page.locator("#metric")).to_have_value("memory_avg_5m")
    expect(tab.page.locator("#node h3").first).to_have_text("node-1")
    console.show(nodes=warm)
    expect(tab.page.locator("#nodes-summary")).to_contain_text("1 over a limit")
    expect(tab.page.locator("#node h3").first).to_have_text("node-1")


def test_a_cell_under_the_mouse_says_what_it_is(console: serving.Console, tab: Tab) -> None:
    tab.open(console, nodes=serving.nodes(LOADS))
    expect(tab.page.locator("#nodes-summary")).to_contain_text("4 nodes")
    tab.page.locator("#map").hover(position={"x": 20, "y": 20})
    expect(tab.page.locator("#tip")).to_have_text("node-2: cpu_avg_5m 90 %, score 1, rejected: cpu_avg_5m over 0.65")
    tab.page.locator("#find").hover()
    expect(tab.page.locator("#tip")).to_be_hidden()


def pixel(tab: Tab, x: int, y: int) -> tuple[int, int, int]:
    """The colour of a point of the map."""
    red, green, blue, _ = tab.page.evaluate(
        f"[...document.querySelector('#map').getContext('2d').getImageData({x}, {y}, 1, 1).data]"
    )
    return red, green, blue


def focus_map(tab: Tab, nodes: str) -> None:
    """Keys move on the map from here on; a map whose nodes have not come yet ignores them."""
    expect(tab.page.locator("#nodes-summary")).to_contain_text(nodes)
    tab.page.locator("#map").focus()


def colour_of(tab: Tab, name: str) -> tuple[int, int, int]:
    """A colour of the style sheet as red, green, blue of 0 to 255."""
    text: str = tab.page.evaluate(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()")
    digits = text.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    red, green, blue = (int(digits[at : at + 2], 16) for at in (0, 2, 4))
    return red, green, blue


def linear(value: float) -> float:
    """sRGB's transfer function (IEC 61966-2-1), of 0 to 255."""
    share = value / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4


def luminance(colour: tuple[int, int, int]) -> float:
    """WCAG's relative luminance."""
    red, green, blue = map(linear, colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(front: float, back: float) -> float:
    """WCAG's contrast ratio."""
    return (max(front, back) + 0.05) / (min(front, back) + 0.05)


def deuteranope(colour: tuple[int, int, int]) -> tuple[float, float, float]:
    """About how an eye without the middle cones sees a colour: Machado, Oliveira and Fernandes 2009, severity 1."""
    red, green, blue = colour
    return (
        0.367322 * red + 0.860646 * green - 0.227968 * blue,
        0.280085 * red + 0.672501 * green + 0.047413 * blue,
        -0.011820 * red + 0.042940 * green + 0.968881 * blue,
    )

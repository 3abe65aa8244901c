"""News of a policy file: one Event per refused content and per one that is in force anew, and nobody fails for it."""

import pathlib

import pytest

from kube import errors, policy_events
from policy.loading import loader
from policy.schema import load_policy
from runtime import options, reloading
from tests import clocks
from tests.unit.kube.test_events import EventDoor

HEAD = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"
ANOTHER, MISSPELT = HEAD + "filter: {onMissing: reject}\n", HEAD + "filtre: {}\n"
NAMED = options.ServiceOptions(pathlib.Path("p"), namespace="ours", pod_name="extender-0", pod_uid="u-7")
UNNAMED = options.ServiceOptions(pathlib.Path("p"), namespace="ours", listen=":8900")


class World:
    """A policy file that tests rewrite, and the news of it."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        path.write_text(HEAD, encoding="utf-8")
        clock, by = clocks.ManualClock(), policy_events.speaker("extender", NAMED)
        self.held: reloading.Reloading[load_policy.LoadPolicy] = reloading.Reloading(path, loader.load, clock=clock)
        self.held.load()
        self.door = EventDoor()
        self.news = policy_events.PolicyEventPublisher(self.held, self.door, by, clock=clock)  # type: ignore[arg-type]

    def turn(self, text: str | None = None) -> None:
        """One turn of a service's policy loop; after an edit two, as one reading of it is none."""
        if text is not None:
            self.path.write_text(text, encoding="utf-8")
            self.held.poll()
        self.held.poll()
        self.news.tell()

    def recorded(self) -> list[tuple[str, str]]:
        """Type and reason of what was written."""
        return [(body["type"], body["reason"]) for _, body in self.door.created]

    def note(self) -> str:
        """The last note."""
        return str(self.door.created[-1][1]["note"])


REFUSED, ACCEPTED = ("Warning", "PolicyRefused"), ("Normal", "PolicyAccepted")


@pytest.fixture
def world(tmp_path: pathlib.Path) -> World:
    return World(tmp_path / "policy.yaml")


def test_the_policy_of_the_start_is_no_news(world: World) -> None:
    world.turn()
    assert world.door.asked == 0


def test_a_refused_content_is_told_once_with_hash_line_column_and_path(world: World) -> None:
    in_force = world.held.content_hash
    text = HEAD + "filter:\n  onMissing: maybe\n"
    for _ in range(3):
        world.turn(text)
    assert world.recorded() == [REFUSED]
    found = reloading.content_hash(text.encode())
    start = f"policy file {found} refused, {in_force} stays in force: {world.path}:4:14: filter.onMissing: "
    assert world.note().startswith(start)


@pytest.mark.parametrize(
    ("first", "second", "recorded"),
    [
        pytest.param(MISSPELT, MISSPELT + "# why not?\n", [REFUSED, REFUSED], id="another content, the same problem"),
        pytest.param(ANOTHER, None, [ACCEPTED], id="a change without trouble"),
        pytest.param(MISSPELT, HEAD, [REFUSED, ACCEPTED], id="the good file is put back"),
    ],
)
def test_a_content_is_news_once(world: World, first: str, second: str | None, recorded: object) -> None:
    world.turn(first)
    world.turn(second)
    assert world.recorded() == recorded


def test_the_next_accepted_content_is_told_with_its_hash(world: World) -> None:
    world.turn(MISSPELT)
    world.turn(ANOTHER)
    assert world.recorded() == [REFUSED, ACCEPTED]
    assert world.note() == f"policy {world.held.content_hash} is in force"


def test_a_file_that_is_gone_is_told_once(world: World) -> None:
    world.path.unlink()
    world.turn()
    world.turn()
    assert world.recorded() == [REFUSED]
    assert world.note().startswith(f"policy file cannot be read, {world.held.content_hash} stays in force: ")
    assert "No such file" in world.note()


def test_an_event_that_the_apiserver_refuses_hurts_nobody_and_is_not_tried_again(world: World) -> None:
    world.door.error = errors.Forbidden("POST", status=403, reason="Forbidden", message="no right to create events")
    for _ in range(3):
        world.turn(ANOTHER)
    assert world.held.current.filter.on_missing == "reject"
    assert world.door.asked == 1
    world.door.error = None
    world.turn(MISSPELT)
    assert world.recorded() == [REFUSED]


@pytest.mark.parametrize("wide", ["x", "é", "漢"], ids=["ASCII", "two bytes", "three bytes"])
def test_a_note_holds_whole_problems_within_one_kibibyte_and_counts_the_rest(world: World, wide: str) -> None:
    world.turn(HEAD + "".join(f'"{wide * 20}{number}": 1\n' for number in range(40)))
    note = world.note()
    assert len(note.encode()) <= 1024
    shown = note.split(": ", 1)[1].split(" | ")
    assert all(f"{world.path}:{number + 3}:1: " in text for number, text in enumerate(shown[:-1]))
    assert len(shown) > 2
    assert shown[-1] == f"and {40 - (len(shown) - 1)} more"
    assert "…" not in note


def test_a_single_problem_longer_than_a_note_is_cut(world: World) -> None:
    speaker = policy_events.speaker("extender", NAMED)
    world.news = policy_events.PolicyEventPublisher(world.held, world.door, speaker, clock=clocks.ManualClock())  # type: ignore[arg-type]
    world.held.error = "é" * 2000
    world.news.tell()
    assert len(world.note().encode()) <= 1024
    assert world.note().endswith("é…")


def test_it_is_shown_on_our_pod_where_the_downward_api_names_it(world: World) -> None:
    world.turn(MISSPELT)
    ((namespace, body),) = world.door.created
    assert namespace == "ours"
    pod = {"kind": "Pod", "name": "extender-0", "namespace": "ours", "uid": "u-7", "apiVersion": "v1"}
    assert body["regarding"] == pod
    assert (body["reportingController"], body["reportingInstance"]) == ("evenload.io/extender", "extender-0")
    assert body["action"] == "Reload"


def test_outside_a_pod_it_is_shown_on_the_namespace() -> None:
    by = policy_events.speaker("annotator", UNNAMED)
    assert (by.regarding.kind, by.regarding.name, by.regarding.namespace) == ("Namespace", "ours", "ours")
    assert by.instance == "annotator at :8900"

"""Whatever stands in a policy file, it is a policy that means the same when written again, or refused with places."""

import json
import pathlib
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies as st

from policy.loading import loader
from policy.schema import load_policy, problems
from tests.unit.fuzz import mutating

FILES = [path.read_text(encoding="utf-8") for path in pathlib.Path("deploy/policies").glob("[dm]*.yaml")]
TREES: list[Any] = [yaml.safe_load(text) for text in FILES] + [load_policy.defaults().as_file()]
YAML_BITS = [
    b"&a ",
    b"*a",
    b"!!float ",
    b"\\U",
    b"\xc2\x85",
    b"? ",
    b"- ",
    b": ",
    b"\n---\n",
    b"%YAML 1.1\n",
    b"|\n",
    b">-\n",
    b"<<: ",
    b"'",
    b"#",
]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A file with bytes changed, or a tree with values changed, written as YAML or as JSON."""
    kind = draw(st.integers(0, 2))
    if kind == 0:
        sample = draw(st.sampled_from(FILES)).encode()
        at = draw(st.integers(0, len(sample)))
        sample = sample[:at] + draw(st.sampled_from([b"", *YAML_BITS])) + sample[at:]
        return draw(mutating.garbled([sample])).decode("utf-8", "surrogateescape")
    tree = draw(mutating.documents(TREES))
    return json.dumps(tree) if kind == 1 else yaml.safe_dump(tree, sort_keys=False)


def loaded(text: str) -> load_policy.LoadPolicy | None:
    """The policy; None where it is refused as it should be."""
    try:
        return loader.load(text, "p.yaml")
    except problems.PolicyError as error:
        refused = error
    str(refused).encode()  # can be printed
    assert refused.problems
    last_line = 2 + sum(map(text.count, "\n\r\x85\u2028\u2029"))  # the end of the text is a place, too
    for problem in refused.problems:
        assert 1 <= problem.line <= last_line, problem
        assert problem.column >= 1
        assert problem.message
    return None


@mutating.BOUNDED
@hypothesis.given(text=texts())
@hypothesis.example(text=FILES[0])
def test_a_text_is_a_policy_that_can_be_written_and_read_again_or_refused(text: str) -> None:
    policy = loaded(text)
    hypothesis.event("read" if policy else "refused")
    if policy is None:
        return
    shown = policy.as_file()
    for written in (json.dumps(shown), yaml.safe_dump(shown, allow_unicode=True, sort_keys=False)):
        again = loader.load(written, "again.yaml")
        assert again.as_file() == shown


def test_the_samples_are_policies() -> None:
    assert len(FILES) >= 3
    assert all(loaded(text) is not None for text in FILES)
    assert all(loaded(json.dumps(tree)) is not None for tree in TREES)


HEAD = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"


@pytest.mark.parametrize(
    ("once", "begin", "end"),
    [
        ("[", "a: ", ""),
        ("{a: ", "a: ", ""),
        ("- ", "a:\n  ", ""),
        ("? ", "", ""),
        ("a: ", "", ""),
        ("&a ", "a: ", ""),
        ("!", "a: ", ""),
        ("x", "a: ", ""),
        ("\n", "a: |\n  b", ""),
        ("# x\n", "", ""),
        ("'", "a: ", ""),
        ("\\", 'a: "', '"'),
        ("cpu_avg_5m: 0.5, ", "filter: {thresholds: {", "}}"),
        ("{window: 1m, pods: 2, penalty: 1}, ", "hotSpots: [", "]"),
        ("{window: 1x}, ", "hotSpots: [", "]"),
        ("x, ", "descheduler: {protect: {namespaces: [", "]}}"),
        ("---\n", "", ""),
        ("%A b\n", "", "---\n"),
    ],
)
def test_the_work_grows_with_the_text(once: str, begin: str, end: str) -> None:
    mutating.assert_grows_with_the_text(loaded, once, (HEAD + begin, end))


@pytest.mark.parametrize("key", ["sync", "filter", "hotSpots", "metrics", "descheduler", "x"])
def test_one_mistake_of_any_length_costs_no_more_than_its_reading(key: str) -> None:
    mutating.assert_grows_with_the_text(loaded, "abcdefgh" * 8, (f"{HEAD}{key}: {{", ": 1}"))

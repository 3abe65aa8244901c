"""Every value of the chart changes an object, by the real Helm.

Most values have a word of their own here, by which the objects show that it has arrived, so that values of several
sections are rendered at once. Those of one section never are, nor those of the same last name: a template that asks for
one component's value before it writes another's must not find it set. A switch or a choice has no word, and is alone.
"""

import functools
import pathlib
import re
import tempfile
from typing import Any, Final

import pytest
import yaml

from deploy.helm import __main__
from tests.contract import helm_client, test_helm
from tests.contract.helm_client import Document, Helm

pytestmark = pytest.mark.cluster
VALUES: Final = __main__.by_name()
COMPONENT: Final = "app.kubernetes.io/component"
# By section the components whose objects have its words; the other sections are of all components.
OWNERS: Final = {
    **{name: {name} for name in ("extender", "descheduler", "console")},
    "annotator": {"annotator", "policy-check"},
    "placeholders": {"placeholder", "placeholder-size"},
    "placeholders.sizing": {"placeholder-size"},
    "secondScheduler": {"scheduler"},
}


# Those of a few values; `policy` is refused unless it is a policy.
CHOICES: Final = tuple(
    name for name, value in VALUES.items() if name == "policy" or "enum" in value or value["type"] == "boolean"
)
WORDS: Final = {name: f"another-{number:03}" for number, name in enumerate(VALUES) if name not in CHOICES}
# Where the schema wants more than a word.
WORDS.update({name: f"sha256:{number:064x}" for number, name in enumerate(WORDS) if name.endswith(".digest")})
WORDS.update({name: f"{10_000 + number}" for number, name in enumerate(WORDS) if name.endswith(".replicas")})
WORDS.update({"networkPolicy.controlPlaneCIDRs": "10.0.0.1/32", "prometheus.url": "http://another:9090"})


def section(name: str) -> str:
    """Returns the part of the values that has objects of its own."""
    return "placeholders.sizing" if name.startswith("placeholders.sizing.") else name.partition(".")[0]


def batches() -> list[list[str]]:
    """Returns the values with words, in as few lists as they can be rendered in."""
    result: list[list[str]] = []
    for name in WORDS:
        for batch in result:
            if all(
                section(name) != section(other) and name.rpartition(".")[2] != other.rpartition(".")[2]
                for other in batch
            ):
                batch.append(name)
                break
        else:
            result.append([name])
    return result


BATCHES: Final = {name: tuple(batch) for batch in batches() for name in batch}


def with_word(name: str) -> object:
    """Returns a value, as its schema has it, that holds its word and nothing else."""
    word, schema = WORDS[name], VALUES[name]
    if "integer" in schema["type"]:
        return int(word)
    if schema["type"] == "array":
        return [word if schema.get("items", {}).get("type") == "string" else {"name": word}]
    return {word: word} if schema["type"] == "object" else word


def another_choice(name: str) -> object:
    """Returns another choice than the one of the release with everything."""
    schema = VALUES[name]
    if name == "policy":
        return {"descheduler": {"mode": "Enforce"}}
    if "enum" in schema:
        return next(one for one in reversed(schema["enum"]) if one != schema["default"])
    now = functools.reduce(lambda values, key: values.get(key, {}), name.split("."), helm_client.merged(test_helm.ALL))
    return not (schema["default"] if now == {} else now)


def rendered(values: dict[str, object]) -> str:
    """Returns the objects of the release with everything, but for values that are given by their dotted names."""
    nested: list[Any] = []
    for name, value in values.items():
        nested.append(functools.reduce(lambda inner, key: {key: inner}, reversed(name.split(".")), value))
    with tempfile.TemporaryDirectory() as home:
        helm = Helm(helm_client.MAJORS[0], pathlib.Path(home))
        return helm.template(helm_client.merged(test_helm.ALL, *nested))


@functools.cache
def objects_with_words(batch: tuple[str, ...]) -> list[str]:
    """Returns the text of each object where the values of a batch have their words."""
    return rendered({name: with_word(name) for name in batch}).split("\n---\n")


@pytest.mark.parametrize("name", WORDS)
def test_every_value_shows_in_the_objects_of_its_component(name: str) -> None:
    word = re.compile(rf"(?<![\w.]){re.escape(WORDS[name])}(?!\w)")
    texts = [text for text in objects_with_words(BATCHES[name]) if word.search(text)]
    assert texts
    if owners := OWNERS.get(section(name)):
        shown: list[Document] = [yaml.load(text, yaml.CSafeLoader) for text in texts]
        assert {one["metadata"]["labels"].get(COMPONENT) for one in shown} <= owners


@pytest.fixture(scope="module")
def everything() -> str:
    """The release in which all components are on, so that each value has its objects."""
    return rendered({})


@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_changes_an_object(everything: str, name: str) -> None:
    assert rendered({name: another_choice(name)}) != everything

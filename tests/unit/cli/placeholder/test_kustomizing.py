"""Our reading of a kustomization: patches do what RFC 6902 says, and what is not read is an error."""

import pathlib
from typing import Any

import pytest
import yaml

from cli.placeholder import render

DOCUMENT: dict[str, Any] = {"kind": "Thing", "metadata": {"name": "it"}, "list": [1, 2], "a/b~c": 1}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "add", "path": "/new", "value": 3}, {"new": 3}),
        ({"op": "add", "path": "/list/-", "value": 3}, {"list": [1, 2, 3]}),
        ({"op": "add", "path": "/list/0", "value": 3}, {"list": [3, 1, 2]}),
        ({"op": "replace", "path": "/a~1b~0c", "value": 2}, {"a/b~c": 2}),
        ({"op": "replace", "path": "/list/1", "value": 3}, {"list": [1, 3]}),
        ({"op": "remove", "path": "/list/0"}, {"list": [2]}),
        ({"op": "test", "path": "/metadata/name", "value": "it"}, {}),
    ],
    ids=lambda value: f"{value['op']} {value['path']}" if isinstance(value, dict) and "op" in value else "",
)
def test_an_operation_changes_a_copy(operation: dict[str, Any], expected: dict[str, Any]) -> None:
    before = yaml.safe_dump(DOCUMENT)
    assert render.patched(DOCUMENT, [operation]) == DOCUMENT | expected
    assert yaml.safe_dump(DOCUMENT) == before


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ({"op": "replace", "path": "/none", "value": 1}, "there is no /none"),
        ({"op": "replace", "path": "/list/2", "value": 1}, "there is no /list/2"),
        ({"op": "remove", "path": "/metadata/none"}, "there is no /metadata/none"),
        ({"op": "add", "path": "/none/below", "value": 1}, "there is no /none/below"),
        ({"op": "test", "path": "/list/0", "value": 2}, "test /list/0 does not hold"),
        ({"op": "copy", "path": "/list/0", "from": "/list/1"}, "copy /list/0 does not hold"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_there_is_an_error(operation: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        render.patched(DOCUMENT, [operation])


@pytest.mark.parametrize(
    ("kustomization", "message"),
    [
        ({"namePrefix": "x-"}, "namePrefix cannot be read here"),
        ({"resources": ["it.yaml"], "patches": [{"target": {"labelSelector": "a"}, "patch": "[]"}]}, "by kind"),
        ({"resources": ["it.yaml"], "patches": [{"target": {"kind": "Other"}, "patch": "[]"}]}, "no such object"),
    ],
    ids=["a field of kustomize's", "a target of another sort", "a target that nothing is"],
)
def test_what_kustomize_knows_and_we_do_not_is_never_passed_over(
    kustomization: dict[str, Any], message: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "it.yaml").write_text(yaml.safe_dump(DOCUMENT), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        render.build(kustomization, tmp_path)


def test_a_components_patches_reach_what_was_there_before_it_and_the_last_patch_wins(tmp_path: pathlib.Path) -> None:
    (tmp_path / "part").mkdir()
    (tmp_path / "it.yaml").write_text(yaml.safe_dump(DOCUMENT), encoding="utf-8")
    value = "[{op: replace, path: /list, value: %s}]"
    part = {"kind": "Component", "patches": [{"target": {"kind": "Thing"}, "patch": value % "[3]"}]}
    (tmp_path / "part" / "kustomization.yaml").write_text(yaml.safe_dump(part), encoding="utf-8")
    whole: dict[str, Any] = {"resources": ["it.yaml"], "components": ["part"]}
    assert render.build(whole, tmp_path)[0]["list"] == [3]
    own = {"patches": [{"target": {"kind": "Thing", "name": "it"}, "patch": value % "[4]"}]}
    assert render.build(whole | own, tmp_path)[0]["list"] == [4]

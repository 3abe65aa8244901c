"""Every tool that reads files of the repository knows where that is."""

import importlib
import pathlib
import re

from lab.cluster import processes

LAB = pathlib.Path(__file__).parents[1]


def test_the_root_of_every_tool_is_that_of_the_repository() -> None:
    paths = [path for path in LAB.rglob("*.py") if "tests" not in path.parts]
    rooted = [path for path in paths if re.search(r"(?m)^ROOT\b.* = ", path.read_text(encoding="utf-8"))]
    names = [".".join(path.relative_to(LAB.parent).with_suffix("").parts) for path in rooted]
    roots = {name: importlib.import_module(name).ROOT for name in names}
    assert len(roots) > 8
    assert {name: root for name, root in roots.items() if root != processes.ROOT} == {}

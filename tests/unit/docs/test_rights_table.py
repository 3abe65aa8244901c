"""The table of rights in security.md is what deploy/rbac and the component surge grant; only reasons are by hand."""

from collections.abc import Iterator
from typing import Any

import yaml

from tests import pages

PAGE = pages.ROOT / "docs" / "reference" / "security.md"
PATHS = [pages.ROOT / "deploy" / "rbac" / f"{name}.yaml" for name in ("annotator", "descheduler")]
PATHS += [pages.ROOT / "deploy" / "kustomize" / "components" / "surge" / "rights.yaml"]
PATHS += [path for path in sorted(PATHS[0].parent.glob("*.yaml")) if path not in PATHS]
HEADER = "| who | may | what | where | for |"


def granted() -> list[str]:
    """One row without its reason for each rule, in the order of the files."""
    documents = [one for path in PATHS for one in yaml.safe_load_all(path.read_text())]
    roles = [one for one in documents if one["kind"] in ("ClusterRole", "Role")]
    return [row for role in roles for row in rows(role)]


def rows(role: dict[str, Any]) -> Iterator[str]:
    """The rules of a role as the page has them."""
    who = role["metadata"]["name"].removeprefix("evenload-")
    where = "cluster" if role["kind"] == "ClusterRole" else role["metadata"]["namespace"]
    for rule in role["rules"]:
        verbs = ", ".join(rule["verbs"])
        what = ", ".join(resource(name, group) for group in rule["apiGroups"] for name in rule["resources"])
        if names := rule.get("resourceNames"):
            what += " named " + ", ".join(f"`{name}`" for name in names)
        yield f"| {who} | {verbs} | {what} | {where} |"


def resource(name: str, group: str) -> str:
    """As kubectl names it: `leases.coordination.k8s.io`; of the core group the plain name."""
    if group == "*":
        return f"`{name}` of any group"
    return f"`{name}.{group}`" if group else f"`{name}`"


def table_rows() -> list[str]:
    """The rows of the page's table."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = lines.index(HEADER) + 2
    end = next(at for at in range(start, len(lines)) if not lines[at].startswith("|"))
    return lines[start:end]


def test_the_page_has_every_right_that_is_granted_and_no_other() -> None:
    without_reasons = [row[: row[:-1].rstrip().rstrip("|").rindex("|") + 1] for row in table_rows()]
    assert without_reasons == granted(), "docs/reference/security.md should have these rows:\n" + "\n".join(granted())


def test_every_right_has_its_reason() -> None:
    assert not [row for row in table_rows() if not row.split("|")[-2].strip()]


def test_nobody_may_delete_read_secrets_or_do_everything() -> None:
    """As the page says below the table."""
    assert not [row for row in granted() if "delete" in row or "secrets" in row or "| * |" in row]

"""docs/contract.md is what the code does: the policy's defaults, ports, and the sections that code cites."""

import re
from typing import Final

from click.testing import CliRunner

from cli import __main__ as entry
from policy.loading import loader
from policy.schema import load_policy
from tests import pages

CONTRACT: Final = pages.ROOT / "docs" / "contract.md"
HEADING: Final = re.compile(r"^## \d+\. (.+)$", re.MULTILINE)
CITED: Final = re.compile(r"docs/contract\.md, ([a-z' ]+)")
PORT: Final = re.compile(r"^\| (extender|annotator|descheduler) \| (\d+) \|", re.MULTILINE)


def policy() -> str:
    """The text of the page's policy file."""
    return next("\n".join(block.lines) for block in pages.blocks(CONTRACT) if block.language == "yaml")


def test_the_policy_file_has_every_key_with_its_default() -> None:
    shown = loader.load(policy(), "docs/contract.md")
    assert shown == load_policy.defaults()
    preset = (pages.ROOT / "deploy" / "policies" / "default.yaml").read_text(encoding="utf-8")
    words = set(re.findall(r"\b[a-z]\w*(?=:)", re.sub(r"#.*", "", preset)))
    assert not {word for word in words if f"{word}:" not in policy()}


def test_the_ports_are_those_of_the_services() -> None:
    ports = dict(PORT.findall(CONTRACT.read_text(encoding="utf-8")))
    assert set(ports) == {"annotator", "extender", "descheduler"}
    for service, port in ports.items():
        shown = CliRunner().invoke(entry.main, [service, "--help"]).stdout
        assert f"[default: :{port}]" in shown


def test_a_section_that_code_cites_is_there() -> None:
    headings = [heading.lower() for heading in HEADING.findall(CONTRACT.read_text(encoding="utf-8"))]
    sources = [path for package in pages.PACKAGES for path in (pages.ROOT / package).rglob("*.py")]
    cited = {
        (str(path.relative_to(pages.ROOT)), name.strip())
        for path in sources
        for name in CITED.findall(" ".join(path.read_text(encoding="utf-8").split()))
    }
    assert cited
    assert not {(path, name) for path, name in cited if not any(name.startswith(one.split(",")[0]) for one in headings)}

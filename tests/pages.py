"""The commands of README.md and docs/, as the tests run them.

A reader copies what a page shows, so each command is run by a test, or the page says why not. Above a block of commands
stands an HTML comment, which nobody sees who reads the rendered page:

    <!-- commands: offline -->                  run by tests/unit/docs in a directory of the page's own
    <!-- commands: cluster -->                  run by tests/e2e/test_guide.py on a real control plane, in GUIDE's order
    <!-- commands: cluster, at the end -->      the same, after all others: what takes Evenload away
    <!-- commands: not run: needs an engine --> not run, for this reason

A block that is run is fenced as ```console: commands begin with `$ `, and what stands between two of them is what
the first one prints, on stdout and stderr. A line `...` stands for any lines, `…` within a line for anything. A command
that ends otherwise than with 0 says so: `# exit code 1` at its end. A ```yaml block that begins with the line
`# NAME.yaml` is that file. `blocks` reads the pages, `agrees` compares outputs, `Directory` is where commands run.
"""

import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from runtime import reloading
from tests import evenload_script

ROOT: Final = pathlib.Path(__file__).parents[1]
# The folders with Python of this tree.
PACKAGES: Final = (
    "annotator",
    "cli",
    "console",
    "descheduler",
    "extender",
    "kube",
    "kube_scheduler",
    "lab",
    "policy",
    "promql",
    "runtime",
    "simulator",
    "tests",
)
PAGES: Final = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
RULE: Final = (
    "every block of commands in README.md and docs/ has a line above it that says how a test runs it: "
    "<!-- commands: offline -->, <!-- commands: cluster --> or <!-- commands: not run: WHY --> "
    '(docs/contributing.md, "Commands in these pages")'
)
GUIDE: Final = tuple(
    ROOT / "docs" / f"{name}.md" for name in ("start/install", "how-to/tune", "how-to/operate", "start/migrate")
)
AT_THE_END: Final = "cluster, at the end"
PROGRAMS: Final = {
    *("evenload", "kubectl", "kubeadm", "docker", "docker-compose", "podman", "helm", "promtool", "openssl", "sqlite3"),
    *("python", "python3", "pip", "uv", "make", "git", "go", "curl", "jq", "export", "sudo", "bash", "sh", "cp", "cat"),
    *("scp", "ssh", "for"),
}
DIRECTIVE: Final = re.compile(r"<!-- commands: (offline|cluster(?:, at the end)?|not run: (\S.*\S)) -->")
SHELLS: Final = ("console", "sh", "bash", "shell")
_FENCE: Final = re.compile(r"^( *)(`{3,}|~{3,}) *([^\s`]*)[^`]*$")  # also in a list, where it is indented
_FILE: Final = re.compile(r"^# ([\w./-]+\.yaml)$")
_CODE: Final = re.compile(r"# exit code (\d+)\s*$")
_SOURCE: Final = re.compile(r"^\w+ at http://127\.0\.0\.1:\d+\n", re.MULTILINE)  # of a test only


class Command(NamedTuple):
    """One command as it is typed, the lines that the page shows below it, and the code that it ends with."""

    line: int
    text: str
    shown: tuple[str, ...] = ()

    @property
    def code(self) -> int:
        """The exit code that the page says, 0 where it says none."""
        said = _CODE.search(self.text)
        return int(said[1]) if said else 0


class Block(NamedTuple):
    """A code block: fenced or indented, with the directive above it."""

    page: pathlib.Path
    line: int
    language: str
    lines: tuple[str, ...]
    directive: str

    @property
    def place(self) -> str:
        """Where a reader finds it."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def how(self) -> str:
        """`offline`, `cluster`, `cluster, at the end`, `not run`, or "" where the page does not say it."""
        said = DIRECTIVE.fullmatch(self.directive)
        return "" if said is None else said[1].split(":")[0]

    @property
    def reason(self) -> str:
        """Why nobody runs it."""
        said = DIRECTIVE.fullmatch(self.directive)
        return (said and said[2]) or ""

    @property
    def file(self) -> str | None:
        """The name of the file that the block is."""
        said = _FILE.match(self.lines[0]) if self.language == "yaml" and self.lines else None
        return said[1] if said else None

    def commands(self) -> list[Command]:
        """Its commands; of a block that is no console, the lines that begin with a program's name."""
        if any(line.startswith("$ ") for line in self.lines):
            return list(_typed(self))
        shell = self.language in SHELLS
        if self.language and not shell:
            return []
        numbered = _continued(enumerate(self.lines, self.line + 1))
        return [Command(number, line.strip()) for number, line in numbered if _is_command(line, shell=shell)]


def _continued(numbered: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The lines, with those that end with a backslash and what follows them in one."""
    begun, whole = 0, ""
    for number, line in numbered:
        begun, whole = begun or number, whole + line
        if line.endswith("\\"):
            whole += "\n"
        else:
            yield begun, whole
            begun, whole = 0, ""
    if whole:
        yield begun, whole


def _is_command(line: str, *, shell: bool) -> bool:
    words = line.split()
    if not words or words[0].startswith("#"):
        return False
    return shell or pathlib.PurePath(words[0]).name in PROGRAMS


def _typed(block: Block) -> Iterator[Command]:
    """What follows each `$ `, with its continued lines, and what is shown below it."""
    typed, shown, number, continued = "", list[str](), 0, False
    for at, line in enumerate(block.lines, block.line + 1):
        if continued:
            typed += "\n" + line
        elif line.startswith("$ "):
            if typed:
                yield Command(number, typed, tuple(shown))
            typed, shown, number = line[2:], [], at
        else:
            shown.append(line)
            continue
        continued = line.endswith("\\")
    yield Command(number, typed, tuple(shown))


def blocks(page: pathlib.Path, text: str | None = None) -> list[Block]:
    """Every code block of a page, in order."""
    return list(_read(page, (page.read_text(encoding="utf-8") if text is None else text).splitlines()))


def _read(page: pathlib.Path, lines: list[str]) -> Iterator[Block]:
    directive, at = "", 0
    while at < len(lines):
        line = lines[at]
        if line.lstrip().startswith("<!-- commands:"):
            directive = line.strip()
        elif fence := _FENCE.match(line):
            end = next((n for n in range(at + 1, len(lines)) if lines[n].strip() == fence[2]), len(lines))
            inside = tuple(text.removeprefix(fence[1]) for text in lines[at + 1 : end])
            yield Block(page, at + 1, fence[3], inside, directive)
            at, directive = end, ""
        elif line.startswith("    ") and at and not lines[at - 1].strip():
            end = next((n for n in range(at, len(lines)) if not lines[n].startswith("    ")), len(lines))
            yield Block(page, at, "", tuple(text[4:] for text in lines[at:end]), directive)
            at, directive = end - 1, ""
        elif line.strip():
            directive = ""
        at += 1


class Directory:
    """A reader's clone: deploy/ and schemas/ are there, `evenload` is on PATH, and the page's files are written."""

    def __init__(self, path: pathlib.Path, environment: Mapping[str, str]) -> None:
        self.path = path
        for name in ("deploy", "schemas"):
            shutil.copytree(ROOT / name, path / name)
        script = path / ".bin" / "evenload"
        script.parent.mkdir()
        evenload_script.write(script)
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("EVENLOAD_", "KUBE"))},
            **{"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "120", "KUBECONFIG": str(path / "no-kubeconfig")},
            **environment,
            "PATH": f"{script.parent}{os.pathsep}{environment.get('PATH', os.environ['PATH'])}",
        }
        self._ended_with = 0

    def write(self, name: str, block: Block) -> None:
        """Writes the file that a block is."""
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_text("\n".join(block.lines) + "\n", encoding="utf-8")

    def run(self, command: Command, more: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """What the command prints, on stdout and stderr, as bash runs it after the one before (so `echo $?` works)."""
        line = f"(exit {self._ended_with}); {command.text}"
        answer = subprocess.run(
            ["bash", "-o", "pipefail", "-c", line],
            cwd=self.path,
            env={**self._environment, **(more or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        self._ended_with = answer.returncode
        return answer

    def start(self, text: str) -> "subprocess.Popen[bytes]":
        """A command that goes on until it is ended; it prints nowhere."""
        nowhere = subprocess.DEVNULL
        return subprocess.Popen(
            ["bash", "-c", text], cwd=self.path, env=self._environment, stdin=nowhere, stdout=nowhere, stderr=nowhere
        )


def policy_hash(content: bytes) -> str:
    """What the services and the command line call a policy file."""
    return reloading.content_hash(content)


def agrees(texts: tuple[str, ...], text: str, *, times: bool = False) -> bool:
    """True if a command printed the page's lines, but for policy hashes and, with `times`, moments, ages and widths."""
    expected = [_lasting(line, times=times) for line in "\n".join(texts).rstrip().splitlines()]
    printed = [_lasting(line, times=times) for line in _SOURCE.sub("", text).rstrip().splitlines()]
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace("…", ".*") + r"\n" for line in expected
    )
    return bool(re.fullmatch(pattern, "".join(f"{line}\n" for line in printed)))


def _lasting(line: str, *, times: bool) -> str:
    """What of a line is the same in another run."""
    line = re.sub(r"\b[0-9a-f]{12}\b", "HASH", line.rstrip())
    if not times:
        return line
    line = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "MOMENT", line)
    line = re.sub(r"\b\d+(?:\.\d+)?(?:ms|s|m|h|d)\b", "AGE", line)
    return re.sub(r" {2,}", "  ", line)

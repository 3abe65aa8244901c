"""The Dockerfile: what it copies exists, what it installs is pinned as `make venv` has it, and the image can do little.

Parsed here; tests/contract/test_image.py builds and runs it.
"""

import pathlib
import re
import tomllib
from typing import NamedTuple

import yaml

from deploy.image import root
from lab.image import archive
from runtime import version

ROOT = pathlib.Path(__file__).parents[3]
BASE_IMAGE = re.compile(r"docker\.io/library/python:3\.11-slim-trixie@sha256:[0-9a-f]{64}")


class Instruction(NamedTuple):
    """A word and the rest of its line, continuations joined."""

    word: str
    rest: str


def stages() -> list[list[Instruction]]:
    """The instructions of each stage, its FROM first."""
    text = "\n".join(
        one for one in (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines() if not one.startswith("#")
    )
    lines = [one.split(maxsplit=1) for one in text.replace("\\\n", " ").splitlines() if one.strip()]
    found: list[list[Instruction]] = []
    for word, rest in lines:
        if word == "FROM":
            found.append([])
        found[-1].append(Instruction(word, " ".join(rest.split())))
    return found


def of(stage: list[Instruction], word: str) -> list[str]:
    """What a stage has of an instruction."""
    return [one.rest for one in stage if one.word == word]


def ignored() -> tuple[set[str], set[str]]:
    """What .dockerignore leaves out, and what of it it takes in again."""
    lines = [
        one.strip()
        for one in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
        if not one.startswith("#")
    ]
    return {one for one in lines if not one.startswith("!")}, {one[1:] for one in lines if one.startswith("!")}


BUILD, FINAL = stages()


def test_the_first_stage_has_a_base_of_one_digest_and_the_second_begins_from_scratch() -> None:
    base, _, name = of(BUILD, "FROM")[0].partition(" AS ")
    assert (name, of(FINAL, "FROM")) == ("build", ["scratch"])
    assert BASE_IMAGE.fullmatch(base)
    (label,) = of(FINAL, "LABEL")
    reference, _, digest = base.partition("@")
    assert f'image.base.name="{reference}"' in label
    assert f'image.base.digest="{digest}"' in label


def test_the_pins_are_installed_as_make_installs_them() -> None:
    (makes,) = re.findall(r"-m pip install (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    options = set(makes.split(" -r ")[0].split())
    installs = [
        one.strip()
        for run in of(BUILD, "RUN")
        for one in run.split("&&")
        if re.search(r"pip .*install", one) is not None
    ]
    pinned = [one for one in installs if " -r " in one]
    assert [one.partition(" -r ")[2] for one in pinned] == ["requirements.txt", "requirements-build.txt"]
    for one in pinned:
        assert options <= set(one.split()), one
    (own,) = [one for one in installs if one not in pinned]
    assert {"--no-deps", "--no-index"} <= set(own.split())
    (wheel,) = [one for run in of(BUILD, "RUN") for one in run.split("&&") if " wheel " in one]
    assert {"--no-deps", "--no-build-isolation"} <= set(wheel.split())


def test_the_build_backend_is_the_one_of_pyproject() -> None:
    (asked,) = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    lines = (ROOT / "requirements-build.in").read_text(encoding="utf-8").splitlines()
    assert [one for one in lines if not one.startswith("#")] == [asked]


def test_what_is_copied_exists_and_is_all_that_the_wheel_is_made_of() -> None:
    for copied in of(BUILD, "COPY"):
        for source in copied.split()[:-1]:
            assert (ROOT / source).exists(), source
    left_out, taken = ignored()
    assert "*" in left_out
    assert [name for name in taken if not (ROOT / name).exists()] == []
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    assert {*wheel["packages"], *wheel["force-include"]} <= taken
    assert {"pyproject.toml", "requirements.txt", "requirements-build.txt"} <= taken
    assert not {"tests", "cluster", ".git", ".venv"} & taken


def test_the_final_stage_runs_our_command_as_nobody_in_particular() -> None:
    (deployment, *_) = yaml.safe_load_all((ROOT / "deploy/kustomize/base/descheduler.yaml").read_text(encoding="utf-8"))
    pod = deployment["spec"]["template"]["spec"]
    user = f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"
    assert of(FINAL, "USER") == [user]
    assert of(FINAL, "ENTRYPOINT") == ['["evenload"]']
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["scripts"]
    assert set(scripts.values()) == {"cli:main"}
    assert "evenload" in scripts
    ledger = next(mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "ledger")
    assert of(FINAL, "COPY") == ["--from=build /image /", f"--from=build --chown={user} /ledger {ledger}"]
    assert of(FINAL, "RUN") == []
    assert int(user.partition(":")[0]) == root.USER


def test_the_root_is_collected_from_the_environment_and_every_package_is_imported_in_it() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    packages = " ".join(wheel["wheel"]["packages"])
    collected = f"python deploy/image/root.py /opt/evenload /image {packages}"
    assert collected in of(BUILD, "RUN")[-1].split(" && ")
    assert {*wheel["wheel"]["packages"]} == archive.OURS


def test_labels_and_ports_say_what_the_tree_says() -> None:
    (label,) = of(FINAL, "LABEL")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f'image.version="{version.VERSION}"' in label
    assert f'image.description="{project["description"]}"' in label
    assert f'image.licenses="{project["license"]}"' in label
    assert of(FINAL, "EXPOSE") == ["8900 8901 8902"]


def test_pages_run_only_programs_that_the_image_has() -> None:
    """`kubectl cp` needs tar in the container."""
    started = re.compile(
        r"(?:kubectl [^\n]*\bexec [^\n]*? -- |docker compose exec (?:-\S+ )*\S+ |--entrypoint )([\w-]+)"
    )
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    assert {name for text in texts for name in started.findall(text)} == {"evenload", "python"}
    assert not [line for text in texts for line in text.splitlines() if re.match(r"(?:\$ )?kubectl .*\bcp ", line)]

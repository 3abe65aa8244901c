"""A Go program built with other words in a module that it needs."""

import pathlib
import subprocess

import pytest

from lab.cluster import errors, programs

MAIN = 'package main\n\nimport "example.com/paced"\n\nfunc main() { println(paced.Period) }\n'
SOURCE = "package paced\n\nconst Period = 30\n"
EDIT = programs.Edit("example.com/paced", "paced.go", "Period = 30", "Period = 1")


@pytest.fixture
def module(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("EVENLOAD_CACHE", str(tmp_path / "cache"))
    needs = "require example.com/paced v0.0.0\n\nreplace example.com/paced => ../paced\n"
    for name, text, file, source in (("main", needs, "main.go", MAIN), ("paced", "", "paced.go", SOURCE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "go.mod").write_text(f"module example.com/{name}\n\ngo 1.21.0\n\n{text}", encoding="utf-8")
        (tmp_path / name / file).write_text(source, encoding="utf-8")
    return tmp_path / "main"


def test_an_edited_program_is_another_and_its_source_stays(module: pathlib.Path) -> None:
    plain, edited = programs.built(module), programs.built(module, [EDIT])
    said = [subprocess.run([path], capture_output=True, text=True, check=True).stderr for path in (plain, edited)]
    assert said == ["30\n", "1\n"]
    assert (module.parent / "paced" / "paced.go").read_text(encoding="utf-8") == SOURCE


def test_an_edit_of_words_that_are_not_there_is_refused(module: pathlib.Path) -> None:
    with pytest.raises(errors.BuildError, match=r"no 'Period = 60' in paced\.go of example\.com/paced"):
        programs.built(module, [EDIT._replace(before="Period = 60")])

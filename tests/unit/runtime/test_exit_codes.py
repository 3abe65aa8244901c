from typing import ClassVar

import pytest

from runtime import exit_codes
from runtime.exit_codes import Exit


class DoorError(Exception):
    exit_code: ClassVar = Exit.UNREACHABLE


class ConfigError(DoorError):
    exit_code: ClassVar = Exit.BAD_INPUT


class PartialError(DoorError):
    pass


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DoorError("no answer"), 3),
        (ConfigError("no file"), 2),
        (PartialError("a store is down"), 4),
        (OSError("disk full"), 2),
    ],
)
def test_an_error_of_these_types_becomes_one_line_and_its_most_specific_code(
    capsys: pytest.CaptureFixture[str], error: Exception, code: int
) -> None:
    codes: dict[type[Exception], Exit] = {PartialError: Exit.PARTIAL}
    with pytest.raises(SystemExit) as caught, exit_codes.reported(DoorError, OSError, codes=codes):
        raise error
    assert caught.value.code == code
    assert capsys.readouterr().err == f"error: {error}\n"


def test_every_line_of_an_error_says_that_it_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), exit_codes.reported(DoorError):
        raise ConfigError("policy.yaml:2:1: a: no such key\npolicy.yaml:3:1: b: no such key")
    assert capsys.readouterr().err == (
        "error: policy.yaml:2:1: a: no such key\nerror: policy.yaml:3:1: b: no such key\n"
    )


def test_an_error_without_a_text_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), exit_codes.reported(DoorError):
        raise DoorError
    assert capsys.readouterr().err == "error: DoorError\n"


def test_an_unlisted_error_passes() -> None:
    with pytest.raises(KeyError), exit_codes.reported(DoorError):
        raise KeyError("bug")


def test_codes_are_what_scripts_rely_on() -> None:
    assert {one.name: one.value for one in Exit} == {
        "OK": 0,
        "FINDINGS": 1,
        "BAD_INPUT": 2,
        "UNREACHABLE": 3,
        "PARTIAL": 4,
    }

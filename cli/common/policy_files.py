"""The policy files that a command is given: read with a limit, loaded, or the command ends with code 2.

All of `evenload policy` and `evenload scheduler-config` read through here. "-" is stdin. The hash is the one that
the services show in /readyz?verbose and /configz, so that people can see which file is in force.
"""

import pathlib
import sys
from typing import Final, NamedTuple, NoReturn

import click

from cli.common import output
from policy.loading import loader, yaml_tree
from policy.schema import problems
from policy.schema.load_policy import LoadPolicy
from runtime import files, reloading

FILE: Final = click.Path(exists=True, dir_okay=False, allow_dash=True)
STDIN: Final = "-"


class PolicyFile(NamedTuple):
    """A policy and the file it came from; the hash is over the file's bytes (12 hex digits)."""

    source: str
    content_hash: str
    policy: LoadPolicy
    warnings: tuple[problems.Problem, ...]


def name(file: str) -> str:
    """Returns the file's name for messages."""
    return "stdin" if file == STDIN else file


def text(file: str) -> tuple[bytes, str]:
    """The file's bytes, a few more than a policy may have at the most, and the text they are; an unreadable file ends
    the command. Raises problems.PolicyError for what is no UTF-8.
    """
    most = yaml_tree.MAX_BYTES
    try:
        content = sys.stdin.buffer.read(most + 1) if file == STDIN else files.read(pathlib.Path(file), most)
    except OSError as error:
        output.fail(f"{file} cannot be read: {error.strerror or error}")
    try:
        return content, content.decode()
    except UnicodeDecodeError as error:
        if len(content) <= most:
            before = content[: error.start]
            column = error.start - (before.rfind(b"\n") + 1) + 1
            message = f"byte 0x{content[error.start]:02x} is not valid UTF-8: save the file as UTF-8"
            wrong = problems.Problem(before.count(b"\n") + 1, column, "", message)
            raise problems.PolicyError(name(file), [wrong]) from error
        return content, content.decode(errors="replace")  # cut inside a character: too large, and the reader says so


def parse(file: str) -> PolicyFile:
    """The policy in a file. Raises problems.PolicyError with everything wrong, a text that is not UTF-8 included."""
    content, written = text(file)
    return PolicyFile(name(file), reloading.content_hash(content), *loader.read(written, name(file)))


def load(file: str) -> PolicyFile:
    """The policy in a file; one that is refused ends the command, as `refuse` does."""
    try:
        return parse(file)
    except problems.PolicyError as error:
        refuse(error)


def refuse(error: problems.PolicyError) -> NoReturn:
    """End the command with code 2: all problems, and `2 problems in policy.yaml`."""
    amount = len(error.problems)
    output.say(str(error))
    output.fail(f"{amount} problem{'s' * (amount != 1)} in {error.source}")

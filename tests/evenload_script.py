"""The command `evenload` in the shells of tests: a script, and a fork of `tests.starting` that does what it is told.

The script sends its directory, arguments, environment and standard files through a socket to the process of the tests,
which forks, and ends with the exit code that it is sent. It imports nothing: `evenload policy init` takes 0.07 s of
processor time instead of 0.34. If the script ends before the command, as by SIGTERM, the command gets SIGTERM.
"""

import contextlib
import functools
import os
import pathlib
import secrets
import socket
import sys
import threading
from multiprocessing import connection

from tests import starting

_SCRIPT = """#!{python} -IS
import _socket, os, sys
parts = (os.getcwd(), str(len(sys.argv) - 1), *sys.argv[1:], *(f"{{name}}={{os.environ[name]}}" for name in os.environ))
text = b"\\0".join(map(os.fsencode, parts))
files = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
tests = _socket.socket(_socket.AF_UNIX)
tests.connect({address!r})
tests.sendmsg([len(text).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
tests.sendall(text)
code = tests.recv(1)
os._exit(code[0] if code else 1)
"""


def write(path: pathlib.Path) -> None:
    """Writes the script; its commands run while this process does."""
    path.write_text(_SCRIPT.format(python=sys.executable, address=_address()), encoding="utf-8")
    path.chmod(0o755)


@functools.cache
def _address() -> bytes:
    """The address at which this process takes commands: abstract, so that no file of it is left."""
    address = b"\0evenload-" + secrets.token_hex(8).encode()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    threading.Thread(target=_take, args=(listening,), daemon=True).start()
    return address


def _take(listening: socket.socket) -> None:
    while True:
        script, _ = listening.accept()
        threading.Thread(target=_answer, args=(script,), daemon=True).start()


def _answer(script: socket.socket) -> None:
    """Runs one command, and sends its exit code as a shell has it."""
    with script:
        command, files = _received(script)
        passed = [starting.Descriptor(number) for number in files]
        process = starting.context().Process(target=_run, args=(command, *passed), daemon=True)
        process.start()
        for number in files:
            os.close(number)
        if process.sentinel not in connection.wait([process.sentinel, script]):
            process.terminate()
        process.join()
        code = process.exitcode or 0
        with contextlib.suppress(OSError):  # it was ended first
            script.send(bytes([code if code >= 0 else 128 - code]))


def _received(script: socket.socket) -> tuple[starting.Command, list[int]]:
    """The command as the script sends it, and its stdin, stdout and stderr."""
    length, files, _, _ = socket.recv_fds(script, 4, 3)
    with script.makefile("rb") as reader:
        text = os.fsdecode(reader.read(int.from_bytes(length, "big")))
    directory, count, *words = text.split("\0")
    arguments, variables = words[: int(count)], words[int(count) :]
    environment = dict(one.split("=", 1) for one in variables)
    return starting.Command("cli", tuple(arguments), environment, pathlib.Path(directory)), files


def _run(command: starting.Command, stdin: int, stdout: int, stderr: int) -> None:
    """Runs it with the environment of the script alone."""
    os.dup2(stdin, 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - as an interpreter has it, to its end
    os.environ.clear()
    starting.run_here(command, stdout, stderr)

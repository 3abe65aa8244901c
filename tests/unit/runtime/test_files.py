"""Files that are named on a command line: pipes, devices and large files end in an error, not in a wait."""

import os
import subprocess
from pathlib import Path

import pytest

from runtime import files

LIMIT_BYTES = 1 << 17


def test_a_file_is_read_whole_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content := os.urandom(LIMIT_BYTES))
    assert files.read(path, LIMIT_BYTES) == content
    with pytest.raises(OSError, match="it is larger than 127 KiB"):
        files.read(path, LIMIT_BYTES - 1)


def test_of_a_large_file_nothing_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, 10 * 2**30)
    with pytest.raises(OSError, match="it is larger than 128 KiB"):
        files.read(path, LIMIT_BYTES)


def test_a_device_without_an_end_is_larger_than_any_limit() -> None:
    with pytest.raises(OSError, match="it is larger than 128 KiB"):
        files.read(Path("/dev/zero"), LIMIT_BYTES)


def test_a_pipe_that_nothing_writes_to_is_no_wait(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match="it is a pipe that nothing writes to"):
        files.read(path, LIMIT_BYTES)


def test_a_pipe_with_a_writer_is_read_to_its_end() -> None:
    command = ["bash", "-c", f"printf {'x' * 3000}; read -r _; printf y"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write(b"\n")
        writer.stdin.flush()
        assert files.read(Path(f"/dev/fd/{writer.stdout.fileno()}"), LIMIT_BYTES) == b"x" * 3000 + b"y"


def test_a_directory_is_named_as_one(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        files.read(tmp_path, LIMIT_BYTES)

"""The picture of `evenload effectiveness --png`, drawn by the real matplotlib: a PNG of the size and steps promised."""

import pathlib
import struct

import pytest

from cli import effectiveness_figures as figures
from cli import effectiveness_plot


def size(file: pathlib.Path) -> tuple[int, int]:
    """Width and height in a PNG's header."""
    content = file.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    return width, height


def test_the_picture_has_its_size_gaps_included(tmp_path: pathlib.Path) -> None:
    sums: list[dict[str, float]] = [{"total": 4.0, "cpu": 2.0}, {}, {"total": 2.0, "cpu": 0.5, "left_out": 1.0}]
    moments = [figures.Moment(3600.0 * at, figures.of(one)) for at, one in enumerate(sums)]
    effectiveness_plot.write(moments, tmp_path / "out.png", "title")
    assert size(tmp_path / "out.png") == (1200, 960)


@pytest.mark.parametrize("moments", [[], [figures.Moment(0.0, figures.of({}))]], ids=["no steps", "one empty step"])
def test_nothing_to_draw_is_an_empty_picture(tmp_path: pathlib.Path, moments: list[figures.Moment]) -> None:
    effectiveness_plot.write(moments, tmp_path / "out.png", "title")
    assert size(tmp_path / "out.png") == (1200, 960)

"""The generated curves have the statistics of the real ones, one per seed; trace files are read or refused."""

import io
import os
import pathlib
import struct
import tracemalloc
import zipfile
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from simulator import load_curves
from simulator.history import past_file

TEN_DAYS = 10 * load_curves.DAY_STEPS
SEEDS = range(200)


@pytest.fixture(scope="module")
def fleet() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """CPU and memory of 200 owners over ten days, percent of a machine."""
    curves = [load_curves.generate(seed, TEN_DAYS) for seed in SEEDS]
    means = [load_curves.owner_means(seed) for seed in SEEDS]
    cpu = [100 * mean.cpu_ratio * curve.cpu for mean, curve in zip(means, curves, strict=True)]
    memory = [100 * mean.memory_ratio * curve.memory for mean, curve in zip(means, curves, strict=True)]
    return np.array(cpu, np.float64), np.array(memory, np.float64)


def autocorrelation(values: npt.NDArray[np.float64], lag: int) -> float:
    """The median over series of the correlation of a series with itself `lag` steps later."""
    centred = values - values.mean(axis=1, keepdims=True)
    return float(np.median((centred[:, :-lag] * centred[:, lag:]).mean(axis=1) / (centred**2).mean(axis=1)))


Fleet = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


@pytest.mark.parametrize(
    ("resource", "mean", "p50", "p95", "p99"),
    [
        pytest.param(0, 21.9, 18.6, 50.6, 71.9, id="cpu of the Google cell"),
        pytest.param(1, 19.6, 12.4, 56.7, 85.3, id="memory of the Google cell"),
    ],
)
def test_levels_are_distributed_as_in_the_cell(
    fleet: Fleet, resource: int, mean: float, p50: float, p95: float, p99: float
) -> None:
    values = fleet[resource]
    assert values.mean() == pytest.approx(mean, rel=0.15)
    assert np.percentile(values, [50, 95, 99]) == pytest.approx([p50, p95, p99], rel=0.2)


@pytest.mark.parametrize(
    ("resource", "lag", "expected"),
    [
        pytest.param(0, 1, 0.83, id="cpu after five minutes"),
        pytest.param(0, 12, 0.61, id="cpu after an hour"),
        pytest.param(0, 288, 0.34, id="cpu after a day"),
        pytest.param(1, 1, 0.88, id="memory after five minutes"),
        pytest.param(1, 12, 0.71, id="memory after an hour"),
        pytest.param(1, 288, 0.32, id="memory after a day"),
    ],
)
def test_a_series_remembers_as_long_as_the_real_ones(fleet: Fleet, resource: int, lag: int, expected: float) -> None:
    assert autocorrelation(fleet[resource], lag) == pytest.approx(expected, abs=0.13)


def test_cpu_and_memory_of_one_owner_move_together_as_in_the_cell(fleet: Fleet) -> None:
    pairs = zip(fleet[0], fleet[1], strict=True)
    assert np.median([np.corrcoef(cpu, memory)[0, 1] for cpu, memory in pairs]) == pytest.approx(0.45, abs=0.1)


def test_the_spread_inside_a_series_is_that_of_the_cell(fleet: Fleet) -> None:
    assert np.median(fleet[0].std(axis=1)) == pytest.approx(3.7, rel=0.25)
    assert np.median(fleet[1].std(axis=1)) == pytest.approx(0.7, rel=0.25)


def test_the_fleet_swings_a_little_every_day(fleet: Fleet) -> None:
    day = fleet[0].mean(axis=0).reshape(-1, load_curves.DAY_STEPS).mean(axis=0)
    assert (day.max() - day.min()) / day.mean() == pytest.approx(0.16, abs=0.05)


@pytest.mark.parametrize("seed", [0, 1, 77, 12345])
def test_a_curve_has_mean_one_never_falls_to_nothing_and_depends_on_its_seed_only(seed: int) -> None:
    curve = load_curves.generate(seed)
    load_curves.generate.cache_clear()
    again = load_curves.generate(seed)
    assert curve.cpu.mean() == pytest.approx(1, abs=1e-3)
    assert curve.cpu.min() > 0
    assert curve.memory.min() > 0
    assert np.array_equal(curve.cpu, again.cpu)
    assert not np.array_equal(curve.cpu, load_curves.generate(seed + 1).cpu)


def write_trace(path: pathlib.Path, **arrays: object) -> pathlib.Path:
    """A trace of two jobs with a gap each; `arrays` replaces or (None) leaves out."""
    gap = 65535
    cpu = np.array([[100, gap, 300], [gap, gap, gap]], np.uint16)
    memory = np.array([[gap, 50, 50], [1, 1, 1]], np.uint16)
    content: dict[str, object] = {"cpu": cpu, "mem": memory, "cpu_scale": 0.1, "mem_scale": 0.1, "step": 60} | arrays
    arrays_given = {name: np.asarray(value) for name, value in content.items() if value is not None}
    np.savez(path, allow_pickle=False, **arrays_given)
    return path


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        pytest.param({"cpu_scale": None}, "cpu_scale", id="no scale"),
        pytest.param({"cpu": np.ones((2, 3))}, "codes are float64", id="numbers instead of codes"),
        pytest.param({"mem": np.ones((1, 3), np.uint16)}, "expected equal", id="other jobs for memory"),
        pytest.param({"step": 0}, "step > 0", id="steps of no length"),
        pytest.param({"step": np.inf}, "step > 0", id="steps that never end"),
        pytest.param({"cpu_scale": 0.0}, "scale is 0.0", id="a scale of nothing"),
        pytest.param({"mem_scale": np.nan}, "scale is nan", id="a scale that is no number"),
        pytest.param({"cpu_scale": 20.0}, "cpu reaches 6000 % of a machine", id="a scale out of proportion"),
        pytest.param({"cpu": np.zeros((0, 3), np.uint16), "mem": None}, "expected equal", id="no job at all"),
    ],
)
def test_a_trace_that_cannot_be_read_is_refused_by_name(
    tmp_path: pathlib.Path, arrays: dict[str, object], complaint: str
) -> None:
    path = write_trace(tmp_path / "trace.npz", **arrays)
    with pytest.raises(load_curves.TraceError, match=complaint) as refused:
        load_curves.read_samples(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("length", [0, 1, 30, 500, -1])
def test_a_file_that_was_cut_off_is_refused_by_name(tmp_path: pathlib.Path, length: int) -> None:
    path = write_trace(tmp_path / "trace.npz")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(load_curves.TraceError, match="not a trace file") as refused:
        load_curves.read_samples(path)
    assert str(path) in str(refused.value)


def test_a_damaged_array_and_a_bare_array_are_refused_by_name(tmp_path: pathlib.Path) -> None:
    path = write_trace(tmp_path / "trace.npz", cpu=np.full((40, 40), 257, np.uint16), mem=None)
    path.write_bytes(path.read_bytes().replace(b"\x01\x01\x01\x01", b"\x02\x01\x01\x01", 1))
    with pytest.raises(load_curves.TraceError, match="CRC"):
        load_curves.read_samples(path)
    np.save(tmp_path / "bare.npy", np.ones(3))
    with pytest.raises(load_curves.TraceError, match="not a trace file"):
        load_curves.read_samples(tmp_path / "bare.npy")


def test_samples_keep_their_gaps_and_a_file_need_not_speak_of_memory(tmp_path: pathlib.Path) -> None:
    samples = load_curves.read_samples(write_trace(tmp_path / "trace.npz", mem=None))
    assert np.isnan(samples.cpu_ratio).tolist() == [[False, True, False], [True, True, True]]
    assert np.isnan(samples.memory_ratio).all()


def test_a_file_that_is_no_trace_is_refused_by_name(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "trace.npz"
    path.write_text("hello")
    with pytest.raises(load_curves.TraceError, match="not a trace file"):
        load_curves.read_samples(path)
    with pytest.raises(load_curves.TraceError, match="not a trace file"):
        load_curves.read_samples(tmp_path / "absent.npz")


@pytest.mark.parametrize("kind", ["text", "objects", "one array"])
def test_a_wrong_file_is_refused_in_words_of_ours(kind: str, tmp_path: pathlib.Path) -> None:
    path, objects = tmp_path / "wrong.npz", np.array([{"a": 1}], dtype=object)
    if kind == "text":
        path.write_text("# not an archive\n", encoding="utf-8")
    elif kind == "objects":
        np.savez(path, cpu=objects, document=objects)
    else:
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    for refused in (lambda: load_curves.read_samples(path), lambda: past_file.load(path)):
        with pytest.raises((load_curves.TraceError, past_file.HistoryError), match=r"wrong\.npz: not a ") as said:
            refused()
        assert not [word for word in ("pickle", "unsafe", "numpy", "context manager") if word in str(said.value)]


def test_a_curve_by_the_clock_keeps_its_mean_and_swings_over_a_day() -> None:
    flat = load_curves.Curve(
        np.ones(2 * load_curves.DAY_STEPS, np.float32), np.ones(2 * load_curves.DAY_STEPS, np.float32)
    )
    daily = load_curves.by_the_clock(flat, np.random.default_rng(1))
    first, second = daily.cpu[: load_curves.DAY_STEPS], daily.cpu[load_curves.DAY_STEPS :]
    assert first == pytest.approx(second, abs=1e-5)
    assert daily.cpu.mean() == pytest.approx(1.0, abs=1e-5)
    assert daily.memory.mean() == pytest.approx(1.0, abs=1e-3)
    assert daily.cpu.max() / daily.cpu.min() > 5
    assert daily.memory.max() / daily.memory.min() < 3


def test_owners_by_the_clock_peak_at_different_hours() -> None:
    flat = load_curves.Curve(np.ones(load_curves.DAY_STEPS, np.float32), np.ones(load_curves.DAY_STEPS, np.float32))
    peaks = {int(load_curves.by_the_clock(flat, np.random.default_rng(seed)).cpu.argmax()) // 96 for seed in range(20)}
    assert peaks == {0, 1, 2}


def npz(path: pathlib.Path, name: str, *, shape: tuple[int, ...], kind: str = "<f4", size_bytes: int = 0) -> None:
    """An archive of one array whose head says a shape, and whose values are so many zeros, packed."""
    head = io.BytesIO()
    described = {"descr": kind, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(head, described)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open(f"{name}.npy", "w") as member:
        member.write(head.getvalue())
        for _ in range(size_bytes >> 20):
            member.write(bytes(1 << 20))


def declare(path: pathlib.Path, size_bytes: int) -> None:
    """Has the archive say another length of its one member."""
    before = struct.pack("<I", zipfile.ZipFile(path).infolist()[0].file_size)
    path.write_bytes(path.read_bytes().replace(before, struct.pack("<I", size_bytes)))


def peak_bytes(read: Callable[[], object]) -> int:
    """The most memory that Python and numpy held at once while it was refused."""
    tracemalloc.start()
    try:
        with pytest.raises((load_curves.TraceError, past_file.HistoryError)):
            read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["cpu", "document"])
def test_what_unpacks_to_too_much_is_refused_before_it_is_unpacked(name: str, tmp_path: pathlib.Path) -> None:
    path, values = tmp_path / "bomb.npz", 600 << 20  # 2,400 MiB as the float32 of a trace
    npz(path, name, shape=(values,), kind="|u1", size_bytes=1 << 20)
    declare(path, zipfile.ZipFile(path).infolist()[0].file_size - (1 << 20) + values)  # of a bomb it would be true
    for read in (lambda: load_curves.read_samples(path), lambda: past_file.load(path)):
        assert peak_bytes(read) < 16 << 20
    with pytest.raises(
        load_curves.TraceError, match=r"bomb\.npz: .*its arrays take 2400 MiB, over 2048 MiB: take fewer"
    ):
        load_curves.read_samples(path)


def test_a_head_that_lies_about_its_array_is_refused_before_memory_is_taken(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "liar.npz"
    npz(path, "cpu", shape=(1 << 40,), size_bytes=1 << 20)
    assert peak_bytes(lambda: load_curves.read_samples(path)) < 16 << 20
    with pytest.raises(load_curves.TraceError, match=r"cpu\.npy says 1099511627776 values and has another length"):
        load_curves.read_samples(path)


def test_an_archive_that_lies_about_its_member_unpacks_no_more_than_it_says(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "liar.npz"
    npz(path, "cpu", shape=((64 << 20) // 4,), size_bytes=64 << 20)
    declare(path, 1 << 10)
    assert peak_bytes(lambda: load_curves.read_samples(path)) < 16 << 20


def test_an_archive_packed_in_another_way_is_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "packed.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("cpu.npy", b"x")
    with pytest.raises(load_curves.TraceError, match=r"cpu\.npy is packed in a way that numpy's \.npz is not"):
        load_curves.read_samples(path)


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a directory"])
def test_what_is_no_file_is_refused_at_once(kind: str, tmp_path: pathlib.Path) -> None:
    path = {"a pipe": tmp_path / "pipe", "a device": pathlib.Path("/dev/zero"), "a directory": tmp_path}[kind]
    if kind == "a pipe":
        os.mkfifo(path)
    for read in (lambda: load_curves.read_samples(path), lambda: past_file.load(path)):
        assert peak_bytes(read) < 16 << 20

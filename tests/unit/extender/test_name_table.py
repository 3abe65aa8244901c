"""Names to rows: what the directory finds is what a dictionary would, and it finds nothing but lists of known names."""

import random

import hypothesis
import pytest
from hypothesis import strategies as st

from extender.state import name_table

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-."
NODES = st.lists(st.text(LETTERS, min_size=8, max_size=70).map(str.encode), min_size=1, max_size=40, unique=True)
CLOUD = [f"ip-10-{at // 256}-{at % 256}.eu-west-1.compute.internal".encode() for at in range(5000)]


@hypothesis.given(names=NODES, rng=st.randoms(use_true_random=False), holes=st.integers(0, 3))
def test_known_names_are_found_in_their_order(names: list[bytes], rng: random.Random, holes: int) -> None:
    by_row = [b""] + names + [b""] * holes
    rng.shuffle(by_row)
    asked = rng.sample(names, rng.randint(1, len(names)))
    found = name_table.of(by_row).rows(name_table.written(asked))
    assert found is not None
    assert [by_row[row] for row in found.tolist()] == asked


def test_thousands_of_similar_names_are_told_apart_by_their_first_letters() -> None:
    made = name_table.of([b"", *CLOUD])
    found = made.rows(name_table.written(reversed(CLOUD)))
    assert found is not None
    assert found.tolist() == list(range(5000, 0, -1))
    assert made.windows.offsets == (4,)


@hypothesis.given(names=NODES, other=st.binary(max_size=80))
def test_whatever_is_no_list_of_known_names_is_not_found(names: list[bytes], other: bytes) -> None:
    made = name_table.of([b"", *names])
    text = name_table.written(names)
    assert made.rows(other) is None
    assert other in names or made.rows(name_table.written([*names, other])) is None
    assert made.rows(text + other) is None or not other


@pytest.mark.parametrize("text", [b"", b"[]", b'[""]', b'["', b'["a-long-name"', b'["a-long-name","a-long-name]'])
def test_broken_lists_are_not_found(text: bytes) -> None:
    assert name_table.of([b"", b"a-long-name"]).rows(text) is None


def test_short_names_are_left_to_the_dictionary_and_no_names_are_no_error() -> None:
    short = name_table.of([b"", b"a", b"b"])
    assert short.rows(b'["a","b"]') is None
    assert name_table.of([b""]).rows(b'["a-long-name"]') is None

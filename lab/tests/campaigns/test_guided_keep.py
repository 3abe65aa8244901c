"""The choice of few texts that reach the same lines as many."""

from lab.campaigns.guided import keep

A, B, C = ("a.py", 1), ("a.py", 2), ("b.py", 1)


def test_the_fewest_texts_reach_all_lines() -> None:
    reached = {b"x": frozenset({A}), b"yy": frozenset({A, B}), b"zzz": frozenset({C}), b"zzzz": frozenset({C})}
    assert keep.fewest(reached) == [b"yy", b"zzz"]


def test_no_text_reaches_nothing() -> None:
    assert keep.fewest({}) == []
    assert keep.fewest({b"": frozenset()}) == []

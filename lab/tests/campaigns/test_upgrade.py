"""Rows that are lost between two steps of an upgrade."""

import pathlib

import click
import pytest

from lab.campaigns.chaos.judging import Recorded
from lab.campaigns.upgrade import __main__ as upgrade

ROW = Recorded(7, "run", "uid", "node-1", "evicted", 100.0)


def test_rows_that_stay_are_not_named_whatever_became_of_them() -> None:
    now = {7: ROW._replace(result="evicted_unconfirmed"), 8: ROW._replace(id=8)}
    assert upgrade.missing({7: ROW}, now, "step") == []


@pytest.mark.parametrize("now", [{}, {7: ROW._replace(pod_uid="another")}])
def test_a_row_that_is_gone_or_of_another_pod_is_named(now: dict[int, Recorded]) -> None:
    assert upgrade.missing({7: ROW}, now, "step") == ["row 7 was lost: step"]


def test_a_checkout_without_the_old_version_is_told_what_to_do() -> None:
    with pytest.raises(click.ClickException, match=r"of 0\.1\.0.*clone with the whole history"):
        upgrade.unpacked(pathlib.Path("0.1.0"), "0" * 40)

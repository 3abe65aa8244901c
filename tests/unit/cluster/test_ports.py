"""A port that was chosen here is nobody else's, whether its listener runs or not."""

import random
import subprocess
import sys

from cluster import ports

OTHER = "import random; from cluster import ports; print(ports.Ports(random.Random({seed})).of('a listener'))"


def test_two_that_draw_the_same_lots_get_different_ports() -> None:
    first, second = (ports.Ports(random.Random(7)) for _ in range(2))
    chosen = [found.of(name) for found in (first, second) for name in ("a", "b")]
    assert len(set(chosen)) == 4, chosen
    assert first.of("a") == chosen[0]


def test_a_port_stays_reserved_for_other_processes_while_nobody_listens_there() -> None:
    ours = ports.Ports(random.Random(11)).of("a listener")
    assert ports.is_free(ours)
    command = [sys.executable, "-c", OTHER.format(seed=11)]
    assert int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) != ours


def test_a_port_that_turned_out_to_be_taken_is_not_chosen_again() -> None:
    chosen = ports.Ports(random.Random(13))
    before = chosen.of("a")
    chosen.renew("a")
    assert chosen.of("a") != before

"""Sixty seeded faults, each kind twice and more, in a real control plane with two replicas of each service."""

import pytest

from lab.campaigns.chaos import __main__ as chaos
from lab.campaigns.chaos import faults
from lab.campaigns.chaos.site import Terms

pytestmark = pytest.mark.cluster
FAULTS = 60
SEED = 1
TERMS = Terms(ready_seconds=300.0, fault_seconds=(0.5, 3.0))  # beside other control planes all takes longer


@pytest.mark.timeout(1800)
def test_sixty_faults_break_no_invariant() -> None:
    result = chaos.play(FAULTS, SEED, tuple(faults.FAULTS), TERMS)
    assert result.broken == []
    assert set(result.injected) == set(faults.FAULTS)
    assert result.evicted > 0, "without an eviction most judges have nothing to judge"

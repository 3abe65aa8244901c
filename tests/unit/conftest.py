"""Property tests take the same examples in every `make test`, and others, and more, in `make -C lab properties`.

A gate must say the same twice: an example that nobody has drawn before is for those who look for one, not for whoever
lands a change that day. What is found is kept as an `@example`. No deadline, no limit on drawing: the machine is
shared, and no test is about time spent.
"""

import os
from typing import Any

import hypothesis
import pytest

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "0"))

hypothesis.settings.register_profile(
    "evenload",
    deadline=None,
    derandomize=not EXAMPLES,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(  # of lab.campaigns.mutants, for which any failure will do
    "unshrunk",
    hypothesis.settings.get_profile("evenload"),
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
    report_multiple_bugs=False,
)
hypothesis.settings.load_profile("evenload")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Also tests with settings of their own take so many: those are for `make test`."""
    if not EXAMPLES:
        return
    for item in items:
        method: Any = getattr(item, "obj", None)
        test = getattr(method, "__func__", method)
        if hypothesis.is_hypothesis_test(test):
            own = test._hypothesis_internal_use_settings
            test._hypothesis_internal_use_settings = hypothesis.settings(
                own, max_examples=max(EXAMPLES, own.max_examples), derandomize=False
            )

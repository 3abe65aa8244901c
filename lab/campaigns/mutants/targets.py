"""The code that is changed, and the unit tests that are to notice. mutmut runs those alone that reach the place."""

from typing import Final, NamedTuple


class Target(NamedTuple):
    """Modules, as files below the root, and the files or directories of their tests."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


def _descheduler(*names: str) -> tuple[str, ...]:
    return tuple(f"tests/unit/descheduler/test_{name}.py" for name in names)


_RULES: Final = ("tests/unit/policy", "tests/unit/extender")
TARGETS: Final = {
    "filter": Target(("policy/rules/filtering.py",), _RULES),
    "score": Target(("policy/rules/scoring.py", "policy/rules/hotspots.py", "policy/rules/expected_load.py"), _RULES),
    "limits": Target(
        ("descheduler/planning/limits.py", "descheduler/planning/disruption_budgets.py"),
        _descheduler("caps", "disruption_budgets", "limits", "planner", "pools", "relief_effect"),
    ),
    "protections": Target(
        ("descheduler/planning/protections.py",),
        _descheduler("flow_rules", "interned", "planner", "protections", "scaled_owners", "tenants"),
    ),
    "planning": Target(
        tuple(
            f"descheduler/planning/{name}.py"
            for name in (
                "candidate_order", "departed_load", "flow_rules", "mean_lines", "overload", "planner",
                "plans", "relief_effect", "verdicts",
            )
        ),
        _descheduler(
            "app", "caps", "cluster_watch", "destinations", "flow_rules", "limits", "mean_lines", "overload",
            "own_resources", "plan_placements", "planner", "pools", "predictions", "relief_effect", "tenants",
        ),
    ),
    "ledger": Target(
        ("descheduler/ledger/*.py",), _descheduler(
            "evictor", "followup", "history_from_rows", "ledger", "ledger_pairs", "own_resources", "predictions",
            "retention", "service",
        )
    ),
    "surges": Target(("descheduler/surges.py", "descheduler/eviction/surges.py"), _descheduler("surges")),
    "kube": Target(("kube/*.py",), ("tests/unit/kube", "tests/unit/test_pod_forms.py")),
    "promql": Target(("promql/*.py",), ("tests/unit/promql",)),
    "annotator": Target(("annotator/*.py",), ("tests/unit/annotator",)),
    "http": Target(("extender/http/*.py",), ("tests/unit/extender",)),
    "cli": Target(("cli/*.py",), ("tests/unit/cli",)),
}  # fmt: skip

"""The policy file's text -> `load_policy.LoadPolicy`, or every problem in it at once, each as `file:line:column: path:
message`.

The services load through here (first load and reload) and log what `describe` says, the CLI's `policy validate` prints
what it raises or warns of. `policy.loading.yaml_tree` reads the text; here the model judges the tree, and every finding
gets its place in the text.
"""

from typing import Final

import pydantic

from policy.loading import yaml_tree
from policy.schema import checks, lint, load_policy, problems

_MAX_ROUNDS: Final = 8
_IDENTITY: Final = {"apiVersion": load_policy.API_VERSION, "kind": load_policy.KIND}


def load(text: str, source: str) -> load_policy.LoadPolicy:
    """The policy in `text`; `source` names it in messages. Raises `problems.PolicyError` with all that is wrong."""
    return read(text, source)[0]


def read(text: str, source: str) -> tuple[load_policy.LoadPolicy, tuple[problems.Problem, ...]]:
    """Returns the policy, and the settings in its text that work and are hardly meant, in the order of the text."""
    document = yaml_tree.read_tree(text)
    if not isinstance(document.tree, dict):
        empty = problems.Problem(1, 1, "", "the file is empty: a mapping with apiVersion and kind expected")
        raise problems.PolicyError(source, document.findings or (empty,))
    unreadable = {finding.path for finding in document.findings}
    policy, findings = _judge(document.tree)
    wrong = list(document.findings)
    for path, message, at_key in findings:
        if (place := problems.path_text(path)) not in unreadable:
            wrong.append(problems.Problem(*document.position(path, at_key=at_key), place, message))
    if policy is None or wrong:
        raise problems.PolicyError(source, wrong)
    warnings = [
        problems.Problem(*document.position(doubt.path, at_key=False), problems.path_text(doubt.path), doubt.message)
        for doubt in lint.doubts(policy)
    ]
    return policy, tuple(sorted(warnings))


def in_force(policy: load_policy.LoadPolicy) -> dict[str, str]:
    """Returns the values that decide most, by the path of the file, whether the file gives them or not."""
    score = policy.score
    return {
        "filter.whenAllRejected": policy.filter.when_all_rejected,
        "score.weights": ", ".join(f"{name} {weight:g}" for name, weight in score.weights.items() if weight),
        "score.combine": score.combine,
        "score.incomingPod": str(score.incoming_pod).lower(),
        "score.spread": score.spread,
        "descheduler.mode": policy.descheduler.mode,
        **({"pools": ", ".join(pool.name for pool in policy.pools)} if policy.pools else {}),
        **({"podClasses": ", ".join(one.name for one in policy.pod_classes)} if policy.pod_classes else {}),
    }


def describe(policy: load_policy.LoadPolicy) -> tuple[dict[str, str], list[str]]:
    """For the log: what is in force, and each warning as `path: message`."""
    warnings = [f"{problems.path_text(doubt.path)}: {doubt.message}" for doubt in lint.doubts(policy)]
    return in_force(policy), warnings


_Findings = list[tuple[problems.Path, str, bool]]


def _judge(tree: dict[str, object]) -> tuple[load_policy.LoadPolicy | None, _Findings]:
    """The model of a tree and everything wrong with it: (path, message, whether the key and not the value is at fault).

    A field that is wrong by itself is taken out (its default stands in) so that combinations elsewhere are still
    judged in the same round; what a combination says about a part taken out, or by it, is dropped.
    """
    findings: _Findings = []
    removed: set[problems.Path] = set()
    for _ in range(_MAX_ROUNDS):
        try:
            policy = load_policy.LoadPolicy.model_validate(tree)
        except pydantic.ValidationError as error:
            for detail in error.errors(include_url=False):
                if detail["type"] == "too_short" and detail["input"]:
                    continue  # the items are wrong, each with its own finding; the list is not empty
                path = tuple(detail["loc"])
                message = problems.explain(detail, problems.known_keys(load_policy.LoadPolicy, path))
                findings.append((path, message, detail["type"] == "extra_forbidden"))
                if not _lies_in(path, removed):
                    removed.add(_take_out(tree, path))
            continue
        holding = {gone[:length] for gone in removed for length in range(len(gone))}
        for wrong in checks.combinations(policy):
            if not any(path in holding or _lies_in(path, removed) for path in (wrong.path, *wrong.rests_on)):
                findings.append((wrong.path, wrong.message, False))
        return policy, findings
    return None, findings


def _lies_in(path: problems.Path, removed: set[problems.Path]) -> bool:
    return any(path[:length] in removed for length in range(1, len(path) + 1))


def _take_out(tree: dict[str, object], path: problems.Path) -> problems.Path:
    """Remove the deepest mapping entry on `path` (for a missing key, the mapping that lacks it; a list as a whole)."""
    holder: object = tree
    last: tuple[dict[str, object], str, int] = (tree, str(path[0]), 1)
    for depth, part in enumerate(path, start=1):
        if not isinstance(holder, dict) or part not in holder:
            break
        last = (holder, str(part), depth)
        holder = holder[part]
    mapping, key, depth = last
    mapping.pop(key, None)
    if depth == 1 and key in _IDENTITY:
        tree[key] = _IDENTITY[key]
    return path[:depth]

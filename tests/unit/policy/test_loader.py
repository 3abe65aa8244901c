"""Reading a policy file: what it means, and every mistake with its line, column, path and a way out."""

import pytest

from policy.loading import loader, yaml_tree
from policy.schema import load_policy, problems

HEAD = "apiVersion: evenload.io/v1alpha1\nkind: LoadPolicy\n"


def _mistakes(text: str) -> list[str]:
    with pytest.raises(problems.PolicyError) as refused:
        loader.load(text, "p.yaml")
    return str(refused.value).splitlines()


def test_a_file_that_gives_nothing_but_its_kind_has_the_defaults() -> None:
    assert loader.load(HEAD, "p.yaml").as_file() == load_policy.defaults().as_file()


def test_given_keys_change_and_keys_not_given_keep_their_defaults() -> None:
    policy = loader.load(HEAD + "sync: {period: 10s}\nscore: {combine: mean}\n", "p.yaml")
    assert (policy.sync.period_seconds, policy.sync.stale_after_seconds) == (10.0, 300.0)
    assert (policy.score.combine, policy.score.weights) == ("mean", load_policy.defaults().score.weights)


def test_given_maps_replace_the_default_maps() -> None:
    policy = loader.load(
        HEAD + "filter: {thresholds: {memory_avg_5m: 60%}}\nscore: {weights: {cpu_avg_5m: 1}}\n", "p.yaml"
    )
    assert policy.filter.thresholds == {"memory_avg_5m": 0.6}
    assert policy.score.weights == {"cpu_avg_5m": 1.0}


def test_descheduler_thresholds_keep_the_order_of_the_file() -> None:
    bands = "{cpu_avg_5m: {evictAbove: .9, evictUntil: .7}, memory_avg_5m: {evictAbove: .8, evictUntil: .5}}"
    text = f"descheduler: {{thresholds: {bands}}}"
    assert list(loader.load(HEAD + text, "p.yaml").descheduler.thresholds) == ["cpu_avg_5m", "memory_avg_5m"]


def test_a_metric_of_the_file_may_be_used_by_the_file() -> None:
    text = HEAD + "metrics: [{name: cpu_p95_30m, resource: cpu, statistic: p95, window: 30m}]\n"
    policy = loader.load(text + "filter: {thresholds: {cpu_p95_30m: 0.7}}\n", "p.yaml")
    assert policy.metrics_in_force[-1].averaging_seconds == 300.0


def test_json_is_yaml_and_is_read() -> None:
    text = '{"apiVersion": "evenload.io/v1alpha1", "kind": "LoadPolicy", "sync": {"period": "1m"}}'
    assert loader.load(text, "p.json").sync.period_seconds == 60.0


def test_times_of_day_need_no_quotes_and_no_is_a_namespace() -> None:
    text = HEAD + "descheduler:\n  windows: [{from: 22:00, to: 06:30}]\n  protect: {namespaces: [no, on]}\n"
    policy = loader.load(text, "p.yaml")
    assert (policy.descheduler.windows[0].begins, policy.descheduler.windows[0].ends) == ("22:00", "06:30")
    assert policy.descheduler.protect.namespaces == ("no", "on")


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_text() -> None:
    text = (
        HEAD
        + """sync:
  period: 30
filter:
  thresholds: {cpu_avg_5m: 65, cpu_avg5m: 0.5}
  onMissing: pas
  whenAllRejectd: pending
  exempt: {daemonSets: yes}
descheduler:
  thresholds: {cpu_avg_5m: {evictAbove: 0.6, evictUntil: 0.8}, memory_avg_5m: {evictAbove: .7}}
  windows: [{days: [Mon, Tues], from: 22:00, to: 25:00}]
  paused:
"""
    )
    assert _mistakes(text) == [
        "p.yaml:4:11: sync.period: 30 has no unit: write a Go duration such as 30s or 30m",
        'p.yaml:6:28: filter.thresholds.cpu_avg_5m: 65 is not a ratio from 0 to 1; did you mean "65%"',
        'p.yaml:6:43: filter.thresholds.cpu_avg5m: no metric of this name; did you mean "cpu_avg_5m"',
        'p.yaml:7:14: filter.onMissing: pass or reject expected, got "pas"; did you mean "pass"',
        'p.yaml:8:3: filter.whenAllRejectd: unknown key "whenAllRejectd"; did you mean "whenAllRejected"',
        "p.yaml:9:24: filter.exempt.daemonSets: yes is a text here: write true or false",
        "p.yaml:11:58: descheduler.thresholds.cpu_avg_5m.evictUntil: must be lower than evictAbove (0.6), "
        "or a relieved node is overloaded again",
        "p.yaml:11:64: descheduler.thresholds.memory_avg_5m.evictUntil: is required",
        "p.yaml:12:26: descheduler.windows[0].days[1]: Mon or Tue or Wed or Thu or Fri or Sat or Sun expected, "
        'got "Tues"; did you mean "Tue"',
        'p.yaml:12:50: descheduler.windows[0].to: a time of day of two digits each, in quotes, such as "08:30" '
        'expected, got "25:00"',
        "p.yaml:13:10: descheduler.paused: is empty: give true or false or remove the key",
    ]


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("", "p.yaml:1:1: the file is empty: a mapping with apiVersion and kind expected"),
        ("# only a comment\n", "p.yaml:1:1: the file is empty: a mapping with apiVersion and kind expected"),
        ("- a\n", "p.yaml:1:1: a mapping with apiVersion and kind expected"),
        ("a: b\n---\nc: d\n", "p.yaml:2:1: a second document begins: one policy per file expected"),
        ("a:\n\tb: c\n", "p.yaml:2:1: a tab cannot stand here: YAML is indented with spaces"),
        ("a: &x 1\nb: *x\n", "p.yaml:1:4: a: anchors (&name) are not read: write the value out where it is needed"),
        ("a: *x\n", "p.yaml:1:4: a: aliases (*name) are not read: write the value out"),
        ("a: !!float 1\n", "p.yaml:1:4: a: tags (!name) are not read: remove tag:yaml.org,2002:float"),
        ("? [a]\n: b\n", "p.yaml:1:3: a key that is a text expected"),
        ("a: [\n", "p.yaml:2:1: no YAML: "),
        ("a: b: c\n", "p.yaml:1:5: no YAML: "),
        ("x: \x00\n", "p.yaml:1:4: the character #x0000 is not allowed"),
        ('x: "\\UFFFFFFFF"\n', "p.yaml:1:1: no YAML: "),
        ("a: " + "[" * 60_000, "p.yaml:1:36: a[0][0]: nested deeper than 32 levels"),
        ('a: {b: "\\ud800"}\n', "p.yaml:1:8: a.b: \\ud800 is not a character: write the character itself"),
        ('a: [x, "\\uDFFF"]\n', "p.yaml:1:8: a[1]: \\udfff is not a character"),
        ('a: {b: 1, "\\ud800": 1}\n', "p.yaml:1:11: a: \\ud800 is not a character"),
        ('a: 1\n"x\\ud83d\\ude00": 1\n', "p.yaml:2:1: \\ud83d is not a character"),
        ("a: [" + "1," * 20_000 + "1]", "more than 10000 values"),
        ("a: '" + "x" * yaml_tree.MAX_BYTES + "'", "p.yaml:1:1: the file is larger than 256 KiB"),
        ("a: '" + "ü" * (yaml_tree.MAX_BYTES // 2) + "'", "p.yaml:1:1: the file is larger than 256 KiB"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_a_text_that_is_no_policy_is_refused_where_it_goes_wrong(text: str, mistake: str) -> None:
    assert mistake in _mistakes(text)[0]


@pytest.mark.parametrize(
    ("body", "mistake"),
    [
        ("sync: {period: 1m, period: 2m}", "p.yaml:3:20: sync.period: the key is given twice (first on line 3)"),
        ("sync: 3", "p.yaml:3:7: sync: a mapping expected, got 3"),
        ("sync:", "p.yaml:3:6: sync: is empty: give a mapping or remove the key"),
        ("hotSpots: {window: 1m}", "p.yaml:3:11: hotSpots: a list expected, got a mapping"),
        ("hotSpots: [{window: 1m, pods: 0, penalty: 1}]", "hotSpots[0].pods: 0 is out of range: at least 1 expected"),
        ("descheduler: {gracePeriod: 0s}", 'descheduler.gracePeriod: "0s" must be longer than 0s'),
        ("hotSpots: [{window: 0s, pods: 1, penalty: 1}]", 'hotSpots[0].window: "0s" must be longer than 0s'),
        ("hotSpots: [{window: 1m, pods: 1, penalty: .inf}]", "hotSpots[0].penalty: .inf is not a finite number"),
        ("hotSpots: [{window: 1m, pods: 1, penalty: .NaN}]", "hotSpots[0].penalty: .NaN is not a finite number"),
        ("hotSpots: [{window: 1m, pods: 1.5, penalty: 1}]", "hotSpots[0].pods: a whole number expected, got 1.5"),
        ("hotSpots: [{window: 1m, pods: true, penalty: 1}]", "hotSpots[0].pods: a whole number expected, got true"),
        ("hotSpots: [{window: 1m, pods: 010, penalty: 1}]", "010 is read differently by YAML versions"),
        ("hotSpots: [{window: 1m, pods: 1_0, penalty: 1}]", "1_0 is read differently by YAML versions"),
        ("hotSpots: [{window: 1m, pods: 1:30, penalty: 1}]", 'pods: a whole number expected, got "1:30"'),
        ("hotSpots: [{window: 1m}]", "p.yaml:3:12: hotSpots[0].penalty: is required"),
        ("filter: {exempt: {namespaces: [3]}}", 'a text expected, got 3; write it in quotes: "3"'),
        ("filter: {exempt: {priorityAtLeast: 1.5}}", "a whole number expected, got 1.5"),
        ("score: {weights: {cpu_avg_5m: heavy}}", 'score.weights.cpu_avg_5m: a number expected, got "heavy"'),
        ("score: {spread: on}", 'score.spread: none or stretch expected, got "on"'),
        ("mode: Observe", 'p.yaml:3:1: mode: unknown key "mode"; known here: apiVersion, descheduler, '),
        ("descheduler: {makeRoom: {}}", 'p.yaml:3:15: descheduler.makeRoom: unknown key "makeRoom"; known here: '),
        ("stale_after_seconds: 3", 'unknown key "stale_after_seconds"'),
        ("sync: {stale_after_seconds: 3}", 'sync.stale_after_seconds: unknown key "stale_after_seconds"'),
        ('sync: {"a.b": 1}', 'sync."a.b": unknown key "a.b"'),
        ("descheduler: {flow: [{allow: Somtimes}]}", "flow[0].allow: Exempt, Never, {inFlight: n}"),
        ("descheduler: {flow: [{allow: {inFlight: 0}}]}", "with whole numbers from 1 expected"),
        ("descheduler: {flow: [{allow: {burst: 2}}]}", "flow[0].allow: Exempt, Never, {inFlight: n}"),
        ("descheduler: {limits: {perWorkload: many}}", "bySize, a number of pods from 1 or"),
        ("descheduler: {limits: {perWorkload: 0%}}", 'or "1%" to "100%" expected, got "0%"'),
        ("descheduler: {breaker: {factor: 0.5}}", "descheduler.breaker.factor: 0.5 is out of range: at least 1"),
        ("descheduler: {windows: [{days: [], from: 08:00, to: 09:00}]}", "windows[0].days: must not be empty"),
        ("metrics: [{name: CPU, resource: cpu, statistic: max, window: 1m}]", "a name of lower-case letters"),
        (
            'podClasses: [{name: a, match: {namespaces: ["*"]}}]',
            'a namespace such as shop, or its beginning with a * such as "shop-*" expected, got "*"',
        ),
        ("podClasses: [{name: a, match: {priority: {min: high}}}]", 'a whole number expected, got "high"'),
        ("podClasses: [{name: a, match: {labels: {a: b}}}]", 'unknown key "labels"; known here: namespaces, priority,'),
        ("podClasses: [{name: a}]", "podClasses[0].match: is required"),
        (f"podClasses: [{{name: a, match: {{namespaces: [{101 * 'b,'}]}}}}]", "101 items, expected at most 100"),
    ],
)
def test_a_wrong_field_is_named_with_what_was_expected(body: str, mistake: str) -> None:
    mistakes = _mistakes(HEAD + body + "\n")
    assert mistake in mistakes[0]
    assert mistakes[0].startswith("p.yaml:3:")


def test_a_list_of_one_wrong_word_is_not_called_empty() -> None:
    body = "descheduler:\n  windows:\n  - {days: [Monday], from: 08:00, to: 9:00}\n"
    assert _mistakes(HEAD + body) == [
        "p.yaml:5:13: descheduler.windows[0].days[0]: Mon or Tue or Wed or Thu or Fri or Sat or Sun expected, "
        'got "Monday"; did you mean "Mon"',
        'p.yaml:5:39: descheduler.windows[0].to: a time of day of two digits each, in quotes, such as "08:30" '
        'expected, got "9:00"',
    ]


def test_api_version_and_kind_are_required_and_checked() -> None:
    assert _mistakes("sync: {period: 1m}\n") == ["p.yaml:1:1: apiVersion: is required", "p.yaml:1:1: kind: is required"]
    assert _mistakes("apiVersion: v1\nkind: LoadPolicies\n") == [
        'p.yaml:1:13: apiVersion: evenload.io/v1alpha1 expected, got "v1"',
        'p.yaml:2:7: kind: LoadPolicy expected, got "LoadPolicies"; did you mean "LoadPolicy"',
    ]


def test_a_wrong_field_does_not_hide_an_impossible_combination_elsewhere() -> None:
    body = "hotSpots: {}\nmetrics: [{name: X}]\nsync: {staleAfter: 1s}\n"
    assert any("sync.staleAfter: must be at least twice" in mistake for mistake in _mistakes(HEAD + body))


def test_a_wrong_field_is_not_blamed_a_second_time_on_what_rests_on_it() -> None:
    body = "metrics: [{name: my_own, resource: cpu}]\nfilter: {thresholds: {my_own: 0.5}}\n"
    body += "sync: {period: 1, staleAfter: 1s}\n"
    mistakes = _mistakes(HEAD + body)
    assert not any("no metric of this name" in mistake or "twice sync.period" in mistake for mistake in mistakes)
    assert len(mistakes) == 3


def test_of_very_many_mistakes_the_first_fifty_are_shown_and_the_rest_counted() -> None:
    body = "sync: {" + ", ".join(f"wrong{n}: 1" for n in range(70)) + "}\n"
    mistakes = _mistakes(HEAD + body)
    assert len(mistakes) == 51
    assert mistakes[-1] == "p.yaml: and 20 more problems"


def test_a_refused_policy_keeps_its_problems_apart_for_programs() -> None:
    with pytest.raises(problems.PolicyError) as refused:
        loader.load(HEAD + "sync: {period: 3}\n", "p.yaml")
    assert refused.value.source == "p.yaml"
    assert [(p.line, p.column, p.path) for p in refused.value.problems] == [(3, 16, "sync.period")]


@pytest.mark.parametrize(("key", "part"), [("pools", "nodeSelector"), ("podClasses", "match")])
def test_the_log_names_the_pools_and_classes_of_pods_of_a_policy_that_has_some(key: str, part: str) -> None:
    some = [{"name": name, part: dict[str, str]()} for name in ("production", "batch")]
    assert loader.in_force(load_policy.LoadPolicy.of({key: some}))[key] == "production, batch"
    assert key not in loader.in_force(load_policy.defaults())

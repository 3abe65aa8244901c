"""`evenload policy`: write, check, read back, compare and import policy files; `status` asks the services.

The console script loads this module when `policy` is asked for. Each subcommand reads files through
`cli.common.policy_files`, lets `policy/` judge them and prints through `cli.common.output`; exit codes are those of
`runtime.exit_codes` (1 = `diff` found differences, 2 = a file was refused). `validate -o github` writes workflow
commands, which a pull request shows at the line, `-o sarif` a SARIF 2.1.0 log (OASIS), which code scanning takes.
"""

import collections.abc
import dataclasses
import datetime
from typing import Any, Final, NamedTuple

import click
import msgspec

from cli import policy_diff, policy_presets, policy_show
from cli.common import api_types, http_client, output, policy_files, services
from kube import errors
from policy.loading import loader
from policy.schema import problems
from runtime import clock, exit_codes, version

SARIF_SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_RULES: Final = {"error": "policy-problem", "warning": "policy-warning"}
_WORDS: Final = {
    "error": "The services refuse a policy file with this.",
    "warning": "The services take it; it is hardly meant.",
}

Problems = tuple[problems.Problem, ...]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Write, check, read back, compare and import policy files; show the policy in force.

    \b
    Examples:
      evenload policy init > policy.yaml
      evenload policy validate policy.yaml
      evenload policy show policy.yaml
      evenload policy diff running.yaml policy.yaml
      evenload policy status
    """


main.add_command(policy_presets.init)
main.add_command(policy_presets.import_policy)
main.add_command(policy_show.main)


@main.command()
@click.argument("file", type=policy_files.FILE)
@output.option("text", "json", "github", "sarif")
def validate(file: str, output_format: str) -> None:
    """Check a policy file.

    All problems are named at once, and the exit code is 2 if there are any. Every problem is one line on stderr,
    `file:line:column: path: message`; with -o json, github (annotations of a workflow) and sarif they are on stdout.
    Settings that work and are hardly meant are warnings, and change no exit code. "-" reads stdin.

    \b
    Examples:
      evenload policy validate policy.yaml
      evenload policy validate - -o json < policy.yaml | jq '.problems[].path'
      evenload policy validate policy.yaml -o sarif > policy.sarif
    """
    if output_format != "text":
        _validate_for_programs(file, output_format)
    else:
        policy = policy_files.load(file)
        output.data(f"{policy.source} is valid (hash {policy.content_hash})")
        output.data("\n".join(f"{path}: {value}" for path, value in loader.in_force(policy.policy).items()))
        for warning in policy.warnings:
            output.say(f"warning: {warning.text(policy.source)}")


def _validate_for_programs(file: str, output_format: str) -> None:
    wrong: tuple[problems.Problem, ...] = ()
    accepted = None
    try:
        accepted = policy_files.parse(file)
    except problems.PolicyError as error:
        wrong = error.problems
    warnings = accepted.warnings if accepted else ()
    name = policy_files.name(file)
    if output_format == "github":
        output.data(github(name, wrong, warnings))
    elif output_format == "sarif":
        output.data(output.as_json(sarif(name, wrong, warnings)))
    else:
        report = {
            "file": name,
            "valid": not wrong,
            "hash": accepted and accepted.content_hash,
            "problems": [dataclasses.asdict(problem) for problem in wrong],
            "warnings": [dataclasses.asdict(warning) for warning in warnings],
            "inForce": accepted and loader.in_force(accepted.policy),
        }
        output.data(output.as_json(report))
    if wrong:
        raise SystemExit(int(exit_codes.Exit.BAD_INPUT))


def github(source: str, wrong: Problems, warnings: Problems) -> str:
    """A workflow command for each problem and warning, a line each; "" for none."""
    return "\n".join(
        f"::{level} file={_property(source)},line={one.line},col={one.column},title={_property(one.path or 'policy')}"
        f"::{_escaped(_message(one))}"
        for level, one in _levelled(wrong, warnings)
    )


def sarif(source: str, wrong: Problems, warnings: Problems) -> dict[str, Any]:
    """A log with one run, and a result for each problem and warning."""
    rules = [{"id": rule, "shortDescription": {"text": _WORDS[level]}} for level, rule in _RULES.items()]
    driver = {"name": "evenload", "version": version.VERSION, "rules": rules}
    results = [_result(source, level, one) for level, one in _levelled(wrong, warnings)]
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _levelled(wrong: Problems, warnings: Problems) -> list[tuple[str, problems.Problem]]:
    return [("error", one) for one in wrong] + [("warning", one) for one in warnings]


def _result(source: str, level: str, problem: problems.Problem) -> dict[str, Any]:
    region = {"startLine": problem.line, "startColumn": problem.column}
    place = {"artifactLocation": {"uri": source}, "region": region}
    return {
        "ruleId": _RULES[level],
        "level": level,
        "message": {"text": _message(problem)},
        "locations": [{"physicalLocation": place}],
    }


def _message(problem: problems.Problem) -> str:
    return f"{problem.path}: {problem.message}" if problem.path else problem.message


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


@main.command()
@click.argument("before", type=policy_files.FILE, metavar="A")
@click.argument("after", type=policy_files.FILE, metavar="B")
@output.option("text", "json", "yaml")
def diff(before: str, after: str, output_format: str) -> None:
    """Compare the behaviour of policies A and B.

    Each difference is a line, by path. Compares the policies in force, not the text: defaults are filled in, 5m equals
    300s. Exit code 0: the same; 1: they differ; 2: a file was refused. One of the two may be "-" for stdin.

    \b
    Examples:
      evenload policy diff running.yaml policy.yaml
      kubectl -n evenload-system get cm evenload-policy -o jsonpath='{.data.policy\\.yaml}' \\
        | evenload policy diff - policy.yaml
    """
    if before == after == policy_files.STDIN:
        output.fail("only one of the two can be stdin: name a file for the other")
    left, right = policy_files.load(before), policy_files.load(after)
    differences = policy_diff.differences(left.policy, right.policy)
    if output_format != "text":
        output.data(output.structured([difference._asdict() for difference in differences], output_format))
    elif differences:
        output.data(output.coloured(f"--- {left.source}", "red"))
        output.data(output.coloured(f"+++ {right.source}", "green"))
        output.data("\n".join(policy_diff.line(difference) for difference in differences))
    if differences:
        raise SystemExit(int(exit_codes.Exit.FINDINGS))


class _State(msgspec.Struct, rename="camel"):
    """`policyState` of a service's /configz."""

    hash: str
    loaded_at: datetime.datetime
    error: str | None


class _Configz(msgspec.Struct, rename="camel"):
    policy_state: _State


class InForce(NamedTuple):
    """The policy that a replica obeys, and why its file is refused or nothing is known."""

    service: str
    replica: str = ""
    hash: str | None = None
    age_seconds: float | None = None
    problem: str | None = None


@main.command()
@services.extender_options
@services.url_option(services.ANNOTATOR)
@services.url_option(services.DESCHEDULER)
@output.option("table", "json", "yaml")
def status(annotator: str | None, descheduler: str | None, output_format: str, **where: Any) -> None:
    """Show the policy that each replica obeys.

    Of each its hash and age, and why a newer file is refused. Exit code 1: a replica refuses its file or gives no
    answer, or replicas obey different policies.

    \b
    Examples:
      evenload policy status
      evenload policy status -o json | jq '.[] | select(.problem)'
    """
    place = services.Where.taken(services.EXTENDER, where)
    urls = {services.ANNOTATOR: annotator, services.EXTENDER: place.url, services.DESCHEDULER: descheduler}
    with exit_codes.reported(http_client.HttpError, errors.KubeError, codes=output.REFUSAL_CODES):
        rows = [row for names, url in urls.items() for row in _in_force(names, place._replace(url=url))]
    if output_format == "table":
        cells = [(*row[:3], api_types.age(row.age_seconds), row.problem) for row in rows]
        output.data(output.table(("service", "replica", "hash", "age", "problem"), cells, names={"replica"}))
    else:
        output.data(output.structured([row._asdict() for row in rows], output_format))
    if differ := len({row.hash for row in rows if row.hash}) > 1:
        output.say("replicas obey different policies; a changed ConfigMap takes up to two minutes")
    if differ or any(row.problem for row in rows):
        raise SystemExit(int(exit_codes.Exit.FINDINGS))


def _in_force(names: http_client.Names, where: services.Where) -> collections.abc.Iterator[InForce]:
    """The policy of each replica of a service. Raises KubeError, BadUrl."""
    try:
        replicas = services.every(names, where)
    except http_client.Unreachable as error:
        yield InForce(names.service, problem=str(error))
        return
    for replica in replicas:
        try:
            state = replica.decode(replica.get("/configz"), _Configz).policy_state
        except (http_client.Unreachable, http_client.Refused) as error:
            yield InForce(names.service, replica.name, problem=str(error))
        else:
            age_seconds = clock.WallClock().now() - state.loaded_at.timestamp()
            yield InForce(names.service, replica.name, state.hash, age_seconds, state.error)

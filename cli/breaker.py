"""`evenload breaker`: which workloads are left alone because their evictions failed, and closing a breaker by hand.

It asks a running descheduler (GET /breaker, POST /breaker/reset).
"""

import collections.abc
import urllib.parse
from typing import Any, Final

import click
import msgspec

from cli.common import http_client, output, services
from kube import errors
from runtime import exit_codes

HEADERS: Final = ("namespace", "workload", "failures", "last", "state", "until")


class Breaker(msgspec.Struct, frozen=True):
    """A workload whose evictions failed."""

    namespace: str
    workload: str
    workload_uid: str
    failures: int
    last_at: str
    state: str
    until: str | None = None

    @property
    def names(self) -> frozenset[str]:
        """Returns the names that select a workload: uid, "Kind/name", "name", and both behind "namespace/"."""
        plain = {self.workload, self.workload.partition("/")[2]}
        return frozenset({self.workload_uid, *plain, *(f"{self.namespace}/{name}" for name in plain)})


class Breakers(msgspec.Struct, frozen=True):
    """GET /breaker."""

    breakers: tuple[Breaker, ...]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Show and reset the breakers of workloads whose evictions failed.

    \b
    Examples:
      evenload breaker list
      evenload breaker reset shop/Deployment/web
    """


@main.command("list")
@services.descheduler_options
@click.option("--no-headers", is_flag=True, help="Rows only.")
@output.option("table", "json", "yaml", "name")
def show(no_headers: bool, output_format: str, **where: Any) -> None:
    """List workloads with failed evictions.

    A breaker is closed, open (until), on trial (one eviction is allowed), or open until reset.
    """
    with exit_codes.reported(http_client.HttpError, errors.KubeError):
        service = services.first(services.DESCHEDULER, services.Where.taken(services.DESCHEDULER, where))
        breakers = _breakers(service)
    if output_format in ("json", "yaml"):
        output.data(output.structured(msgspec.to_builtins(Breakers(breakers)), output_format))
    elif output_format == "name":
        for one in breakers:
            output.data(f"{one.namespace}/{one.workload}")
    elif breakers:
        rows = [(one.namespace, one.workload, one.failures, one.last_at, one.state, one.until) for one in breakers]
        output.data(output.table(HEADERS, rows, names={"namespace", "workload"}, no_headers=no_headers))
    else:
        output.say("no evictions have failed")


@main.command()
@click.argument("workload", required=False)
@click.option("--all", "everybody", is_flag=True, help="Of every workload.")
@services.descheduler_options
def reset(workload: str | None, everybody: bool, **where: Any) -> None:
    """Forget the failures of WORKLOAD.

    It may then be evicted again. Name it by uid, name, Kind/name or namespace/Kind/name.

    \b
    Examples:
      evenload breaker reset Deployment/web
      evenload breaker reset --all
    """
    if bool(workload) == everybody:
        output.fail("give a workload or --all, one of both")
    with exit_codes.reported(http_client.HttpError, errors.KubeError):
        service = services.first(services.DESCHEDULER, services.Where.taken(services.DESCHEDULER, where))
        uid = "" if workload is None else _meant(_breakers(service), workload).workload_uid
        if isinstance(service, services.ProxiedService):  # a breaker is reset from the pod (docs/decisions, 0008)
            pod = f"kubectl -n {service.place.namespace} exec {service.name}"
            output.say("a breaker is reset from within the pod, by those who may pods/exec there:")
            output.say(f"  {pod} -- evenload breaker reset {uid or '--all'}")
            raise SystemExit(int(exit_codes.Exit.FINDINGS))
        service.post(f"/breaker/reset?{urllib.parse.urlencode({'workload': uid})}" if uid else "/breaker/reset", {})
    output.say(f"reset: {workload or 'all workloads'}; the next run may try again")


def _breakers(service: services.Service) -> tuple[Breaker, ...]:
    return service.decode(service.get("/breaker"), Breakers).breakers


def _meant(states: collections.abc.Iterable[Breaker], workload: str) -> Breaker:
    """The one workload of that name; ends the command where there is none, or more than one."""
    meant = [one for one in states if workload in one.names]
    if not meant:
        output.fail(f"no failed evictions of {workload!r} are known: evenload breaker list shows whose are")
    if len(meant) > 1:
        named = ", ".join(f"{one.namespace}/{one.workload} ({one.workload_uid})" for one in meant)
        output.fail(f"{workload!r} is any of {named}: name one in full, or by its uid")
    return meant[0]

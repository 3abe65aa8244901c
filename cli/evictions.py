"""`evenload evictions`: who was evicted, when and why, where it landed, and whether the node cooled down.

It prints GET /evictions of the descheduler, the ledger's rows: as a table, as JSON, YAML or JSON lines (the whole
ledger, page by page), or as they change (-w). `--events` prints GET /events instead: what was told, also what the
cluster has dropped since.
"""

import collections.abc
import json
import os
import threading
from typing import Any, Final, NamedTuple

import click
import msgspec

from cli import eviction_rows as shown
from cli.common import api_types, completing, http_client, output, services
from kube import errors
from runtime import clock, exit_codes, interrupts

WATCH_SECONDS: Final = 2.0
FIRST_PAGE: Final = "500"
KEPT_SECONDS: Final = 3600.0  # so long an extender remembers decisions
DECISIONS: Final = "2000"
NEXT_STEP: Final = "next: {} plan says what would be evicted now, and why not more"
Json = dict[str, Any]
GROUPS: Final[dict[str, collections.abc.Callable[[shown.Row], str]]] = {
    "node": lambda row: row.node,
    "workload": lambda row: row.workload or f"Pod/{row.pod}",
}


class Wish(NamedTuple):
    """The options of the command: which rows to print, and how."""

    query: dict[str, str]
    output_format: str
    no_headers: bool


@click.command("evictions", context_settings={"help_option_names": ["-h", "--help"]})
@services.descheduler_options
@click.option("--since", default="", metavar="SPAN|TIME", help="Such as 7d, 2h30m or 2026-11-21T04:00:00Z.")
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NAME",
    shell_complete=completing.namespaces,
    help="Pods of this namespace.",
)
@click.option("--node", default="", metavar="NAME", shell_complete=completing.nodes, help="Pods that left this node.")
@click.option("--workload", default="", metavar="NAME", help="Deployment/web, web, or a uid.")
@click.option("--outcome", default="", metavar="RESULT", help="evicted, refused, observed ...")
@click.option("-w", "--watch", is_flag=True, help="Watch: print each row again when its follow-up is known.")
@click.option("--events", is_flag=True, help="The Events of the ledger; --node names their object here.")
@click.option("--summary", is_flag=True, help="How good plans were: errors of predictions, lines held, returns.")
@click.option("--by", type=click.Choice(list(GROUPS)), help="With --summary: each node or workload after the whole.")
@click.option("--no-headers", is_flag=True, help="No line with the columns' names.")
@output.option("table", "wide", "csv", "json", "yaml", "jsonl")
def main(
    since: str,
    watch: bool,
    events: bool,
    summary: bool,
    *,
    by: str | None,
    no_headers: bool,
    output_format: str,
    **options: Any,
) -> None:
    """Show what the descheduler evicted, and what came of it.

    LOAD is the reading over its line (87%>80%), or under it on the way to its target (75% until 60%), LANDED where the
    replacement went (came back: to the node it left), READY how long the workload was without it, 5M and 30M the node's
    load then. -o jsonl exports the whole ledger, the last row first; the other formats print the newest 500. Exit code
    4: the ledger does not reach back to the beginning of the span.

    \b
    Examples:
      evenload evictions --since 7d -o wide
      evenload evictions --node worker-7 --outcome evicted -w
      evenload evictions -o jsonl > evictions.jsonl
      evenload evictions --events --node worker-7
      evenload evictions --summary --by node --since 7d
    """
    filters = {name: options.pop(name) for name in ("namespace", "node", "workload", "outcome")}
    wish = Wish({"since": since, **filters}, output_format, no_headers)
    _require_sense(wish, watch=watch, events=events, summary=summary)
    if by and not summary:
        output.fail("--by needs --summary: it says by what the summary is grouped")
    with exit_codes.reported(http_client.HttpError, errors.KubeError):
        where = services.Where.taken(services.DESCHEDULER, options)
        service = services.first(services.DESCHEDULER, where)
        if events:
            _print_events(service, wish)
        elif summary:
            _print_summary(service, wish, by, where)
        elif watch:
            follow(lambda: shown.page(service, **wish.query, limit=FIRST_PAGE), wish, clock.WallClock())
        else:
            _print(service, wish)
        begun = shown.known_since(service, since)
    if begun:
        output.say(
            f"warning: the ledger was begun anew at {begun}, as its file was corrupt or gone: nothing earlier is known"
        )
        raise SystemExit(int(exit_codes.Exit.PARTIAL))


def _require_sense(wish: Wish, *, watch: bool, events: bool, summary: bool) -> None:
    if watch + events + summary > 1:
        output.fail("--watch, --events and --summary exclude each other: give one of them")
    if summary and wish.output_format not in ("table", "json", "yaml"):
        output.fail(f"--summary with -o {wish.output_format}: it is printed as table, json or yaml")
    if summary and wish.query["outcome"]:
        output.fail("--summary judges evictions that took place: leave --outcome out")
    if watch and wish.output_format in ("json", "yaml"):
        output.fail(f"-w with -o {wish.output_format} would never be a whole document: use -o jsonl")
    if events and any(wish.query[name] for name in ("namespace", "workload", "outcome")):
        output.fail("--events knows --since and --node (the name of any object) only")


def _print(service: services.Service, wish: Wish) -> None:
    if wish.output_format == "jsonl":
        _print_lines(shown.pages(service, **wish.query))
        return
    rows = shown.page(service, **wish.query, limit=FIRST_PAGE)
    if wish.output_format in ("json", "yaml"):
        output.data(output.structured({"evictions": list(rows)}, wish.output_format))
    else:
        _print_table(rows, wish, clock.WallClock().now())
    _remarks(rows, filtered=any(wish.query.values()))


def _print_lines(rows: collections.abc.Iterable[Json]) -> None:
    for row in rows:
        output.data(json.dumps(row, ensure_ascii=False))


def _print_table(rows: collections.abc.Iterable[Json], wish: Wish, now_seconds: float) -> None:
    decoded = [msgspec.convert(row, shown.Row) for row in rows]
    if wish.output_format == "csv":
        figures = map(msgspec.structs.astuple, decoded)  # one in each column, as in the JSON
        output.data(output.csv_table(shown.Row.__struct_fields__, figures, no_headers=wish.no_headers))
        return
    wide = wish.output_format == "wide"
    lines = [shown.cells(row, now_seconds, wide=wide) for row in decoded]
    headers = [*shown.HEADERS, *(shown.WIDE if wide else ())]
    if text := output.table(headers, lines, names=shown.NAMES, no_headers=wish.no_headers):
        output.data(text)


def _remarks(rows: collections.abc.Sequence[Json], *, filtered: bool) -> None:
    if not rows:
        output.say(f"no {'such eviction' if filtered else 'eviction yet'}; {NEXT_STEP.format(output.program())}")
    elif len(rows) == int(FIRST_PAGE):
        output.say(f"the newest {FIRST_PAGE}: --since narrows, -o jsonl prints all")


def follow(fetch: collections.abc.Callable[[], tuple[Json, ...]], wish: Wish, wall: clock.Clock) -> None:
    """Prints rows, the oldest first, and each again when it changes; until it is interrupted."""
    interrupts.end_quietly()
    known: dict[int, Json] = {}
    stop, first = threading.Event(), True
    while True:
        news = [row for row in reversed(fetch()) if known.get(row["id"]) != row]
        known |= {row["id"]: row for row in news}
        if wish.output_format == "jsonl":
            _print_lines(news)
        elif news:
            _print_table(news, wish._replace(no_headers=wish.no_headers or not first), wall.now())
            first = False
        if wall.wait(stop, WATCH_SECONDS):
            return


def _print_summary(service: services.Service, wish: Wish, by: str | None, where: services.Where) -> None:
    now_seconds = clock.WallClock().now()
    rows = [msgspec.convert(row, shown.Row) for row in shown.pages(service, **wish.query)]
    lately = (row for row in rows if now_seconds - row.at_seconds < KEPT_SECONDS)
    best = _on_best_nodes(where) if any(row.landed_node not in (None, row.destination) for row in lately) else ()
    rows = [
        msgspec.structs.replace(row, destination=row.landed_node) if row.landed_pod in best else row for row in rows
    ]
    groups = shown.groups(rows, GROUPS[by] if by else None, now_seconds)
    if wish.output_format == "table":
        lines = [[text(group) for text in shown.FIGURES.values()] for group in groups]
        output.data(output.table(tuple(shown.FIGURES), lines, no_headers=wish.no_headers))
    else:
        output.data(output.structured({"groups": groups}, wish.output_format))
    if not groups[0]["evictions"]:
        output.say(f"no eviction that took place; {NEXT_STEP.format(output.program())}")
    for remark in shown.remarks(groups[0]):
        output.say(remark)


def _on_best_nodes(where: services.Where) -> frozenset[str]:
    """The pods (uids) on a node that shared the best score, of the decisions that extenders remember: of an hour."""
    ask = lambda one: one.decode(one.get("/decisions", limit=DECISIONS), api_types.Decisions).decisions  # noqa: E731
    try:
        extender = where._replace(url=None if where.kubeconfig or where.context else os.getenv("EVENLOAD_EXTENDER"))
        answered = services.each(services.every(services.EXTENDER, extender, quiet=True), ask)
    except (http_client.HttpError, errors.KubeError) as error:
        output.say(f"warning: ties with the expected node are not counted as expected: {error}")
        return frozenset()
    return frozenset(one.uid for decisions in answered for one in decisions if one.bound_to_best)


def _print_events(service: services.Service, wish: Wish) -> None:
    body = service.get("/events", since=wish.query["since"], name=wish.query["node"])
    events, document = service.decode(body, shown.Events).events, service.decode(body, dict[str, Any])
    if wish.output_format == "jsonl":
        _print_lines(document["events"])
    elif wish.output_format in ("json", "yaml"):
        output.data(output.structured({"events": document["events"]}, wish.output_format))
    else:
        now_seconds = clock.WallClock().now()
        lines = [one.cells(now_seconds) for one in events]
        text = output.wrapped_table(shown.EVENT_HEADERS, lines, names={"object"}, no_headers=wish.no_headers)
        output.data(text)
    if not events:
        output.say("no such Event")

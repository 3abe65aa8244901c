"""How many placeholders there are to be: a number, or one that follows the cluster, and other sizes at other times.

`render` and `size` share these options: what `render` is told, it writes into the arguments of the CronJob, in which
`size` reads it. The number itself is a pure function of the options, the nodes and the time.

A span of the week is `20:00-07:00=2`, `Fri 20:00-Mon 07:00=0` or `Mon,Tue 08:30-09:15=150%`. Without days it begins on
every day; one that ends at or before the time it begins ends on the next day, or where a day is named before the end,
on the next such day.
"""

import collections.abc
import dataclasses
import datetime
import math
import re
import types
import zoneinfo
from typing import Any, Final, NamedTuple

import click

from cli.common import option_types
from policy.schema import checks, descheduler_section
from runtime import options as service_options

UTC: Final = "UTC"
DAY_MINUTES: Final = 24 * 60
WEEK_MINUTES: Final = 7 * DAY_MINUTES
MOST_REPLICAS: Final = 10_000
MOST_PERCENT: Final = 1_000
_TIME: Final = r"([01][0-9]|2[0-3]):([0-5][0-9])|24:00"
_WRITTEN: Final = re.compile(
    rf"(?:(?P<days>[A-Za-z,]+) )?(?P<begins>{_TIME})-(?:(?P<end_day>[A-Za-z]+) )?(?P<ends>{_TIME})=(?P<size>\S+)"
)
PROPORTIONS: Final = "--nodes-per-replica, --cores-per-replica or --use-per-replica"
EXPECTED: Final = (
    "[DAYS ]FROM-[DAY ]TO=REPLICAS, as 20:00-07:00=2, 'Fri 20:00-Mon 07:00=0' or 'Sat,Sun 00:00-24:00=20%'"
)


class Size(NamedTuple):
    """A number of replicas, or a percentage of the ordinary number, of which a fraction counts as a whole one."""

    number: int
    percent: bool = False

    def of(self, ordinary: int) -> int:
        """The replicas meant, with so many ordinarily."""
        return math.ceil(self.number * ordinary / 100) if self.percent else self.number


class Span(NamedTuple):
    """Minutes of the week (Monday 00:00 is 0) at which it begins, how long it lasts, and the size while it does."""

    text: str
    begins_minutes: tuple[int, ...]
    length_minutes: int
    size: Size

    def holds(self, minute_of_week: int) -> bool:
        """Whether the minute is in it; its end is not."""
        return any((minute_of_week - begins) % WEEK_MINUTES < self.length_minutes for begins in self.begins_minutes)


class Use(NamedTuple):
    """A metric of the policy, and the percentage of a node's that one placeholder stands for."""

    text: str
    metric: str
    percent: int


class Nodes(NamedTuple):
    """The nodes that take pods: how many, their allocatable CPU, and the sum of their last readings by metric."""

    number: int = 0
    millicores: float = 0.0
    ratios: collections.abc.Mapping[str, float] = types.MappingProxyType({})


class ReplicaCount(NamedTuple):
    """A number of replicas, and where it comes from, for people."""

    replicas: int
    why: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """The options as given, in the order of their help; None and () where an option was not given."""

    replicas: int | None = None
    nodes_per_replica: int | None = None
    cores_per_replica: int | None = None
    use_per_replica: tuple[Use, ...] = ()
    min_replicas: int | None = None
    max_replicas: int | None = None
    time_zone: str | None = None
    during: tuple[Span, ...] = ()

    @property
    def proportional(self) -> bool:
        """Whether the ordinary number follows the cluster."""
        return self.nodes_per_replica is not None or self.cores_per_replica is not None or bool(self.use_per_replica)

    @property
    def changes(self) -> bool:
        """Whether the number changes at all, so that something has to set it."""
        return self.proportional or bool(self.during)

    def arguments(self) -> list[str]:
        """The options as `size` takes them."""
        values = ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))
        lists = ((name, [one.text for one in value] if isinstance(value, tuple) else [value]) for name, value in values)
        pairs = [(name, value) for name, texts in lists for value in texts]
        return [f"--{name.replace('_', '-')}={value}" for name, value in pairs if value is not None]


def refusals(sizing: Sizing) -> collections.abc.Iterator[str]:
    """Returns all conflicts of the options at once."""
    if sizing.time_zone is not None and not sizing.during:
        yield f"--time-zone {sizing.time_zone} has no effect without a schedule: add --during {EXPECTED}"
    if sizing.replicas is not None and sizing.proportional:
        yield f"--replicas {sizing.replicas} has no effect beside {PROPORTIONS}: use --min-replicas and --max-replicas"
    if sizing.proportional and sizing.max_replicas is None:
        yield f"{PROPORTIONS} needs --max-replicas N: placeholders order nodes, and nodes then raise their number"
    for option, bound in (("--min-replicas", sizing.min_replicas), ("--max-replicas", sizing.max_replicas)):
        if bound is not None and not sizing.proportional:
            yield f"{option} {bound} has no effect without {PROPORTIONS}: use --replicas"
    if (sizing.min_replicas or 0) > (sizing.max_replicas if sizing.max_replicas is not None else math.inf):
        yield f"--min-replicas {sizing.min_replicas} is more than --max-replicas {sizing.max_replicas}: swap them"


def ordinary(sizing: Sizing, nodes: Nodes) -> ReplicaCount:
    """The number outside all spans: max(ceil(nodes / nodes per replica), ceil(cores / cores per replica), ceil(sum of
    ratios / use per replica) by metric), clamped to min..max; without proportion `replicas`, which is then given.
    """
    if not sizing.proportional:
        return ReplicaCount(sizing.replicas or 0, f"{sizing.replicas} ordinarily")
    cores = nodes.millicores / 1000
    used = {use: round(100 * nodes.ratios[use.metric], 2) for use in sizing.use_per_replica}
    amounts = [(nodes.number, sizing.nodes_per_replica), (cores, sizing.cores_per_replica)]
    amounts += [(percent, use.percent) for use, percent in used.items()]
    wanted = max(math.ceil(amount / per) for amount, per in amounts if per is not None)
    why = ", ".join((f"{nodes.number} nodes", f"{cores:g} cores", *(f"{use.metric} {used[use]:g}%" for use in used)))
    return ReplicaCount(_bounded(sizing, max(wanted, sizing.min_replicas or 0)), why)


def _bounded(sizing: Sizing, replicas: int) -> int:
    return replicas if sizing.max_replicas is None else min(replicas, sizing.max_replicas)


def planned(sizing: Sizing, nodes: Nodes, now_seconds: float) -> ReplicaCount:
    """The number at a moment (Unix seconds); of several spans that hold, the last one decides."""
    base = ordinary(sizing, nodes)
    local = datetime.datetime.fromtimestamp(now_seconds, zoneinfo.ZoneInfo(sizing.time_zone or UTC))
    minute = local.weekday() * DAY_MINUTES + local.hour * 60 + local.minute
    holding = [span for span in sizing.during if span.holds(minute)]
    if not holding:
        return base
    replicas = _bounded(sizing, holding[-1].size.of(base.replicas))
    return ReplicaCount(replicas, f"{holding[-1].text} {sizing.time_zone or UTC}; {base.why}")


def parse_span(text: str) -> Span:
    """The span that a text means; ValueError says what is expected."""
    match = _WRITTEN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a span with a size: write {EXPECTED}")
    days = [_day(name, text) for name in match["days"].split(",")] if match["days"] else list(range(7))
    begins, ends = _minutes(match["begins"]), _minutes(match["ends"])
    if begins == DAY_MINUTES:
        raise ValueError(f"{text!r} begins at 24:00: write 00:00 of the next day")
    if match["end_day"] is None:
        length = (ends - begins) % DAY_MINUTES or DAY_MINUTES
    elif len(days) > 1:
        raise ValueError(f"{text!r} ends on {match['end_day']} and begins on {len(days)} days: name one")
    else:
        end = _day(match["end_day"], text) * DAY_MINUTES + ends
        length = (end - days[0] * DAY_MINUTES - begins) % WEEK_MINUTES or WEEK_MINUTES
    return Span(text, tuple(day * DAY_MINUTES + begins for day in days), length, parse_size(match["size"]))


def parse_size(text: str) -> Size:
    """`2` or `20%`; ValueError says what is expected."""
    digits = text.removesuffix("%")
    percent = digits != text
    most = MOST_PERCENT if percent else MOST_REPLICAS
    if not (digits.isascii() and digits.isdigit() and len(digits) < 6 and int(digits) <= most):
        expected = f"a number of replicas from 0 to {MOST_REPLICAS}, or a share of the ordinary number as 20%"
        raise ValueError(f"the size {text!r} is neither: {expected} (at most {MOST_PERCENT}%)")
    return Size(int(digits), percent)


def parse_use(text: str) -> Use:
    """`cpu_avg_5m=55%`; ValueError says what is expected."""
    match = re.fullmatch(r"(\S+)=(100|[1-9][0-9]?)%", text)
    if match is None:
        raise ValueError(f"{text!r} is no use of a node: a metric of the policy and 1% to 100%, as cpu_avg_5m=55%")
    return Use(text, match[1], int(match[2]))


def _day(name: str, text: str) -> int:
    if name not in descheduler_section.DAYS:
        raise ValueError(f"{text!r}: {name!r} is not a day: write one of {', '.join(descheduler_section.DAYS)}")
    return descheduler_section.DAYS.index(name)


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


_COUNT: Final = click.IntRange(0, MOST_REPLICAS)
_PER: Final = click.IntRange(1, 1_000_000)
_ZONE: Final = option_types.matching(
    "NAME", checks.is_time_zone, " is not an IANA time zone: write such as Europe/Berlin"
)
_USE: Final = option_types.Text("METRIC=PERCENT", parse_use)


def options(command: collections.abc.Callable[..., Any]) -> collections.abc.Callable[..., Any]:
    """Decorate a click command's function; it gains the keyword argument `sizing`."""
    decorators = [
        click.option(
            "--during",
            multiple=True,
            type=option_types.Text("SPAN=N", parse_span),
            help="Another size in a span of the week, as '20:00-07:00=2'; may be repeated, the last that holds counts.",
        ),
        click.option("--time-zone", type=_ZONE, help="Of --during. Default: UTC."),
        click.option("--max-replicas", type=_COUNT, metavar="N", help="Not more, whatever the cluster's size."),
        click.option("--min-replicas", type=_COUNT, metavar="N", help="Not fewer, whatever the cluster's size."),
        click.option("--use-per-replica", multiple=True, type=_USE, help="One for every node so full; repeatable."),
        click.option("--cores-per-replica", type=_PER, metavar="N", help="One for every N cores, begun ones too."),
        click.option("--nodes-per-replica", type=_PER, metavar="N", help="One for every N nodes, begun ones too."),
        click.option("--replicas", type=_COUNT, metavar="N", help="How many."),
    ]
    return service_options.gather(command, keyword="sizing", kind=Sizing, options=decorators[::-1])

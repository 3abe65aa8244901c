"""The report: one HTML file that needs nothing else, of everything a reader asks about a study.

`evenload simulate --html`, `demo` and `whatif` write what `render` gives. The file has no script and fetches nothing
(its Content-Security-Policy forbids both); charts are inline SVG. Of several seeds the first is drawn, all are in the
tables.
"""

import pathlib
from typing import Final, NamedTuple

import jinja2

from policy.schema.load_policy import LoadPolicy
from simulator.report import charts, headline, stories, strips
from simulator.results import table
from simulator.results.study import Study, Variant

_TEMPLATE: Final = "page.html"
_HERE: Final = pathlib.Path(__file__).parent


class Part(NamedTuple):
    """Everything about one variant on the seed that is drawn; `evictions` may be fewer than were `evicted`."""

    key: str
    title: str
    variant: Variant
    charts: tuple[charts.Chart, ...]
    evictions: tuple[stories.Eviction, ...]
    evicted: int
    decisions: tuple[stories.Decision, ...]


def render(study: Study) -> str:
    """The whole page as HTML text."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    compared = study.comparison
    scale = next((variant.policy for variant in study.variants if variant.policy is not None), None)
    parts = tuple(_part(study, number, variant, scale) for number, variant in enumerate(study.variants))
    hot_minutes = {line.figure.key: line.span(compared.baseline).median for line in compared.lines}
    by_heat = sorted(charts.RESOURCES, key=lambda resource: -hot_minutes[f"{resource}_hot_node_minutes"])
    return environment.get_template(_TEMPLATE).render(
        study=study,
        compared=compared,
        parts=parts,
        resources=[list(charts.RESOURCES).index(resource) for resource in by_heat],
        numbers=[(part, headline.of(study, part.variant.name)) for part in parts[1:]],
        strips=strips.of(compared),
        footnote=table.footnote(compared),
        edges=[charts.edges(resource, scale) for resource in charts.RESOURCES],
        percent=charts.percent,
    )


def _part(study: Study, number: int, variant: Variant, scale: LoadPolicy | None) -> Part:
    key, outcome = f"v{number}", study.outcomes[variant.name][0]
    return Part(
        key=key,
        title=_title(variant),
        variant=variant,
        charts=tuple(charts.of(outcome, key, resource, variant.policy, scale=scale) for resource in charts.RESOURCES),
        evictions=stories.evictions(outcome, key, variant.policy),
        evicted=len(outcome.moved),
        decisions=stories.decisions(outcome.explained),
    )


def _title(variant: Variant) -> str:
    if variant.policy is None:
        return "kube-scheduler alone"
    return "with Evenload" if variant.name == "evenload" else f"with Evenload, {variant.name}"

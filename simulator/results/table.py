"""The final table, variants side by side.

`lab.cluster.demo` prints its two phases here and `commands.simulate` its policies. It shows what was measured in this
run and nothing else, with the seed and settings that repeat it.
"""

from collections.abc import Mapping

from rich import box, console, table, text

from simulator.results.comparison import Comparison, Line

STYLES = {"better": "green", "worse": "bold red", "mixed": "yellow", "same": "dim", "": "dim"}


def print_table(
    compared: Comparison, settings: Mapping[str, object], out: console.Console, *, title: str = "the same arrivals"
) -> None:
    """Prints the table, the settings, and in one sentence a variant how many figures got better and which worse."""
    out.print(built(compared, title))
    settled = ", ".join(f"{name} {value}" for name, value in settings.items())
    out.print(settled, style="dim", highlight=False, markup=False, soft_wrap=True)
    for variant in compared.variants[1:]:
        name = f"{variant}: " if len(compared.variants) > 2 else ""
        out.print(f"{name}{compared.summary(variant)}", highlight=False, markup=False, soft_wrap=True)
    if note := footnote(compared):
        out.print(note, style="dim", highlight=False, markup=False, soft_wrap=True)


def built(compared: Comparison, title: str) -> table.Table:
    """The table alone; over several seeds every value is `median (least-greatest)`."""
    grid = table.Table(title=text.Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("figure")
    for variant in compared.variants:
        grid.add_column(text.Text(variant), justify="right")
        if variant != compared.baseline:
            grid.add_column("")
    for line in compared.lines:
        grid.add_row(line.figure.name, *_cells(line, compared))
    return grid


def _cells(line: Line, compared: Comparison) -> list[text.Text]:
    cells = [text.Text(line.text(compared.baseline))]
    for variant in compared.variants[1:]:
        verdict = line.verdict(variant, compared.baseline)
        cells += [text.Text(line.text(variant)), text.Text(verdict.words, style=STYLES[verdict.word])]
    return cells


def footnote(compared: Comparison) -> str:
    """Returns the caveat of the utilisation at scheduling; "" where nothing was evicted."""
    evicted = next(line for line in compared.lines if line.figure.key == "evictions")
    moved = {name: evicted.text(name) for name in compared.variants[1:] if any(evicted.values[name])}
    if not moved:
        return ""
    who = ", ".join(f"{count} ({name})" if len(compared.variants) > 2 else count for name, count in moved.items())
    return (
        f"{who} evicted pod{' was' if who == '1' else 's were'} scheduled a second time, later and on a fuller "
        "cluster, which is in the figures of scheduling and raises those of chosen nodes."
    )

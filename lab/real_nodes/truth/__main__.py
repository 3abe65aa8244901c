"""`python -m lab.real_nodes.truth`: a run on three real nodes, its tables as Markdown, and its picture. Only wiring.

It takes some 16 minutes, and the machine for itself: CPU that other programs take is idle time of a node.
"""

import pathlib
import sys

import click

from lab.cluster import cache, errors
from lab.real_nodes import machine
from lab.real_nodes.truth import measuring, picture, scenes, tables


@click.command()
@click.option("--picture", "path", type=click.Path(path_type=pathlib.Path), help="Write the picture here, too.")
@click.option("--name", default="real-nodes-truth", show_default=True, help="The directory of the nodes.")
@click.option("--quick", is_flag=True, help="The shortest windows alone, in 6 minutes.")
def main(*, path: pathlib.Path | None, name: str, quick: bool) -> None:
    """Measure how true readings and predictions are on real nodes, and how long relief takes."""
    if reason := machine.missing():
        cache.say(reason)
        sys.exit(2)
    try:
        run = measuring.measured(name, scenes.CASES[:2] if quick else scenes.CASES)
    except errors.ClusterError as error:
        cache.say(f"error: {error}")
        sys.exit(2)
    for table in tables.all_of(run):
        print(table, end="\n\n")
    if path is not None:
        picture.save(picture.drawn(run), path)


if __name__ == "__main__":
    main()

"""`python -m lab.sbom FILE`: write the bill of materials of this tree; `make -C lab sbom` runs it."""

import pathlib

import click

from lab.sbom import document
from runtime import clock


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=pathlib.Path))
def main(file: pathlib.Path) -> None:
    """Write the CycloneDX JSON to FILE."""
    root = pathlib.Path(__file__).parents[2]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(document.of_tree(root, clock.WallClock().now()), encoding="utf-8")
    click.echo(file, err=True)


if __name__ == "__main__":
    main()

"""The licences of every package that runs, as their own metadata names them: `make -C lab licences` writes the page.

A test holds the page to requirements.txt and what is installed, and every licence to `COMPATIBLE`: those under which a
work may be used by, and be shipped beside, one under Apache-2.0, without conditions on that work. Mozilla's is one: it
asks for the source of its own files alone.
"""

import importlib.metadata
import pathlib
import re
from collections.abc import Iterator
from typing import Final

import click

from lab.sbom import pins

ROOT: Final = pathlib.Path(__file__).parents[1]
COMPATIBLE: Final = frozenset(
    (
        "0BSD",
        "Apache-2.0",
        "BSD",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "CC0-1.0",
        "ISC",
        "MIT",
        "MIT-0",
        "MPL-2.0",
        "PSF-2.0",
        "Zlib",
    )
)
# Classifiers are older than identifiers, and one does not say how many clauses.
CLASSIFIERS: Final = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": "BSD",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
_OPERATOR: Final = re.compile(r"\s+(?:AND|OR)\s+|[()]")
HEAD: Final = """\
# Licences

Evenload is under [Apache-2.0](../../LICENSE). These packages run with it, each under the licence that its own metadata
names (SPDX identifiers; BSD where the number of clauses is not named); the image holds the text of each beside the
package. `make -C lab licences` writes this table.

| package | licence |
| --- | --- |
"""
FOOT: Final = """
The console brings uPlot (MIT), with its licence beside it. The image also holds Python (PSF-2.0) and shared libraries
of its base, with Debian's record of their licences in `/usr/share/doc`. The C library is under LGPL-2.1 and the
compiler's runtime library under GPL-3.0 with its exception; both are linked dynamically and unaltered.
"""


def of_package(name: str) -> str:
    """The licence of an installed distribution: its expression, else a field that is one identifier, else a classifier.

    ValueError when its metadata names none; PackageNotFoundError when it is not installed.
    """
    metadata = importlib.metadata.metadata(name)
    expression, field = ((metadata.get_all(key) or [""])[0].strip() for key in ("License-Expression", "License"))
    named = [CLASSIFIERS[text] for text in metadata.get_all("Classifier") or () if text in CLASSIFIERS]
    choices = (expression, field if field in COMPATIBLE else "", *named)
    licence = next(filter(None, choices), "")
    if not licence:
        raise ValueError(
            f"{name}: its metadata names no licence (License: {field[:60]!r}); look, and extend CLASSIFIERS"
        )
    return licence


def identifiers(licence: str) -> Iterator[str]:
    """The identifiers in an expression."""
    return (word.strip() for word in _OPERATOR.split(licence) if word.strip())


def names() -> list[str]:
    """The packages of requirements.txt."""
    return sorted({one.name for one in pins.packages((ROOT / "requirements.txt").read_text(encoding="utf-8"))})


def page() -> str:
    """The page of this tree and what is installed for it."""
    return HEAD + "".join(f"| {name} | {of_package(name)} |\n" for name in names()) + FOOT


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=pathlib.Path))
def main(file: pathlib.Path) -> None:
    """Write the page to FILE."""
    file.write_text(page(), encoding="utf-8")
    click.echo(file, err=True)


if __name__ == "__main__":
    main()

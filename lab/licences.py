"""The licences of every package that runs, by pip-licenses: `make -C lab licences` writes the page.

pip-licenses refuses a licence that is not in COMPATIBLE: those under which a work may be used by, and be shipped
beside, one under Apache-2.0, without conditions on that work. Mozilla's is one: it asks for the source of its own files
alone.
"""

import pathlib
import re
import subprocess
import sys
from typing import Final

ROOT: Final = pathlib.Path(__file__).parents[1]
COMPATIBLE: Final = (
    *("Apache Software License", "Apache-2.0", "Apache-2.0 AND BSD-2-Clause", "Apache-2.0 OR BSD-3-Clause"),
    *("BSD License", "BSD-3-Clause", "BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0"),
    *("MIT", "MIT License", "MIT OR Apache-2.0", "MIT-0", "Mozilla Public License 2.0 (MPL 2.0)", "PSF-2.0"),
)
HEAD: Final = """\
# Licences

Evenload is under [Apache-2.0](../../LICENSE). These packages run with it, each under the licence that its own metadata
names; the image holds the text of each beside the package. `make -C lab licences` writes this table.

"""
FOOT: Final = """
The console brings uPlot (MIT), with its licence beside it. The image also holds Python (PSF-2.0) and shared libraries
of its base, with Debian's record of their licences in `/usr/share/doc`. The C library is under LGPL-2.1 and the
compiler's runtime library under GPL-3.0 with its exception; both are linked dynamically and unaltered.
"""


def page() -> str:
    """The page of requirements.txt and what is installed. Raises CalledProcessError; stderr names the package."""
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    names = sorted(set(re.findall(r"^([a-z0-9-]+)(?:\[.*\])?==", text, re.MULTILINE)))
    options = ("--format=markdown", "--no-version", f"--allow-only={';'.join(COMPATIBLE)}")
    command = [sys.executable, "-m", "piplicenses", *options, "--packages", *names]
    table = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = [" | ".join(cell.strip() for cell in line.strip("|\n").split("|")) for line in table.splitlines()]
    return HEAD + "".join(f"| {row} |\n" for row in (*rows[:1], "--- | ---", *rows[2:])) + FOOT


if __name__ == "__main__":
    pathlib.Path(sys.argv[1]).write_text(page(), encoding="utf-8")

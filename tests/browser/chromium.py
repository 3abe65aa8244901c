"""Chromium for the browser suite: the one that is installed, or Debian's, which `make test` installs where it may.

Elsewhere `python -m tests.browser.chromium` says in a line what to install; in CI it ends with 1.
"""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", "chromium")


def path() -> str | None:
    """The path of a Chromium, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


def install() -> bool:
    """Whether Debian's package could be installed."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return False
    subprocess.run(("apt-get", "update", "-q"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return subprocess.run(INSTALL, stdout=subprocess.DEVNULL, check=False).returncode == 0


def main() -> int:
    """The exit code."""
    if path() or (install() and path()):
        return 0
    sys.stderr.write("no Chromium: tests/browser does not run; install Debian's package chromium, or Chrome\n")
    return 1 if os.environ.get("CI") else 0


if __name__ == "__main__":
    sys.exit(main())

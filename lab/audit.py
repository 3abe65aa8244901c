"""Known vulnerabilities of every pinned package, by pip-audit: `make -C lab audit` runs it.

pip-audit asks PyPI's advisories about each line of the lists. Where no network answers, or an index without advisories
does, it says how many packages were not looked at: that is not the same as sound. It ends with 1 for findings alone.
"""

import json
import pathlib
import subprocess
import sys
from typing import Any, Final, NamedTuple

ROOT: Final = pathlib.Path(__file__).parents[1]
LISTS: Final = ("requirements.txt", "requirements-build.txt", "requirements-dev.txt")


class Report(NamedTuple):
    """pip-audit's answer about a list: a line for each vulnerability, and why packages were not looked at."""

    packages: int
    findings: tuple[str, ...]
    unaudited: tuple[str, ...]


def parse(text: str) -> Report:
    """The report in pip-audit's JSON."""
    packages: list[dict[str, Any]] = json.loads(text)["dependencies"]
    findings = (
        f"{package['name']} {package['version']}: {vulnerability['id']}, fixed in "
        f"{', '.join(vulnerability['fix_versions']) or 'no version yet'}"
        for package in packages
        for vulnerability in package.get("vulns", ())
    )
    unaudited = (str(package["skip_reason"]) for package in packages if "skip_reason" in package)
    return Report(len(packages), tuple(findings), tuple(unaudited))


def summary(name: str, report: Report) -> str:
    """One line about a list of packages."""
    audited = report.packages - len(report.unaudited)
    if not report.unaudited:
        return f"{name}: {len(report.findings)} vulnerabilities known in {audited} packages"
    return (
        f"{name}: {len(report.findings)} vulnerabilities known in {audited} packages; {len(report.unaudited)} were NOT "
        f"looked at: {report.unaudited[0]}"
    )


def main() -> int:
    """Print the findings and a line for each list; the exit code."""
    code = 0
    for name in LISTS:
        options = ("--disable-pip", "--require-hashes", "--progress-spinner", "off", "--format", "json")
        command = (sys.executable, "-m", "pip_audit", *options, "--requirement", str(ROOT / name))
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not done.stdout.strip():
            why = (done.stderr.strip().splitlines() or ["no answer"])[-1]
            sys.stdout.write(f"{name}: NOT looked at, no advisories can be had here: {why[:200]}\n")
            continue
        report = parse(done.stdout)
        sys.stdout.write("".join(f"{line}\n" for line in (*report.findings, summary(name, report))))
        code = code or int(bool(report.findings))
    return code


if __name__ == "__main__":
    sys.exit(main())

"""`python -m lab.campaigns.guided TARGET --seconds N`: mutate texts by coverage and check the target's properties.

atheris (libFuzzer) mutates, and keeps in --texts what reaches code that nothing before it reached; a broken property
ends the run with the bytes in a file. It is installed by `make -C lab guided`, for Linux on x86-64 only.
"""

import importlib
import pathlib
import sys
from typing import Any, Final

import click
import hypothesis

PACKAGES: Final = ["extender", "kube", "policy", "promql", "runtime", "descheduler", "yaml"]
LONGEST_BYTES: Final = 16_384


@click.command()
@click.argument("name")
@click.option("--seconds", default=3600, show_default=True)
@click.option("--texts", type=click.Path(path_type=pathlib.Path), required=True, help="Directory of what is kept.")
@click.option("--seed", default=1, show_default=True)
def main(name: str, seconds: int, texts: pathlib.Path, seed: int) -> None:
    """Fuzz one target, guided by coverage."""
    atheris: Any = importlib.import_module("atheris")
    setattr(hypothesis, "event", lambda *_: None)  # noqa: B010 - outside of Hypothesis there is nothing to note
    with atheris.instrument_imports(include=PACKAGES):
        targets = importlib.import_module("lab.campaigns.guided.targets")
    target = targets.TARGETS[name]
    texts.mkdir(parents=True, exist_ok=True)
    for number, sample in enumerate(target.samples):
        (texts / f"sample-{number}").write_bytes(sample)
    options = [f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={LONGEST_BYTES}", "-print_final_stats=1"]
    corpus = targets.CORPUS / name
    atheris.Setup([sys.argv[0], *options, str(texts), *([str(corpus)] if corpus.exists() else [])], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

"""Report of one sync or of its dry run, as lines for stdout: for people or as one JSON document.

`annotator.__main__` prints them for `--once`; complaints go to stderr there.
"""

import json
from collections.abc import Sequence
from typing import Final

from annotator.publish.node_writer import Write, Writer
from annotator.sync_outcome import Outcome

OUTPUTS: Final = ("text", "json")


def lines(outcome: Outcome, writer: Writer, output: str) -> list[str]:
    """Every write of a dry run, and with "json" the outcome, too. A real sync in "text" is silent."""
    writes = sorted(writer.done, key=lambda write: (write.kind != "Node", write.name))
    if output == "json":
        return [json.dumps(_document(outcome, writer, writes), indent=2)]
    return [_line(write) for write in writes]


def _document(outcome: Outcome, writer: Writer, writes: Sequence[Write]) -> dict[str, object]:
    queries = [one._asdict() | {"error": None if one.error is None else str(one.error)} for one in writes]
    listed: dict[str, object] = {"writes": queries} if writer.dry_run else {}
    return {"dryRun": writer.dry_run, **listed, **outcome.as_json()}


def _line(write: Write) -> str:
    text = f"DRY RUN {write.kind} {write.name} {json.dumps(write.body, separators=(',', ':'))}"
    return text if write.error is None else f"{text} would fail: {write.error}"

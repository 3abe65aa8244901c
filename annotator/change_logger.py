"""Lasting trouble is one log line when it begins and one when it ends, not one per sync.

`annotator.node_sync` tells every sync how each topic stands; only changes are written. Metrics carry the counts.
"""

from runtime import logs

log = logs.get(__name__)


class ChangeLogger:
    """The last logged state of each topic. Used by one thread."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, str], str] = {}

    def update(self, message: str, trouble: object, *, metric: str = "", **values: object) -> None:
        """Tell how a topic (a message, of a metric or in general) stands now.

        `trouble` is what is wrong, an error or some names, or anything false when nothing is. `values` are written
        along but do not make a line by themselves, so that counts may vary quietly.
        """
        text = str(trouble) if trouble else ""
        before = self._texts.get((message, metric), "")
        self._texts[message, metric] = text
        about = {"metric": metric} if metric else {}
        if text and text != before:
            log.warning(message, what=text, **about, **values)
        elif before and not text:
            log.info("trouble over", was=message, **about)

"""Questions about workloads that cost requests, asked for those of a run; an API that does not answer is asked once."""

import collections.abc
from typing import TypeVar

from kube import errors

K = TypeVar("K")
T = TypeVar("T")


def answers(
    questions: collections.abc.Mapping[K, collections.abc.Callable[[], T]],
    failed: collections.abc.Callable[[str], T],
) -> dict[K, T]:
    """Returns the answers by the same keys; `failed` makes one of an error's words. After a request without
    an answer, or a 429, the rest are not sent.
    """
    answered: dict[K, T] = {}
    silent: errors.KubeError | None = None
    for key, question in questions.items():
        try:
            answered[key] = question() if silent is None else failed(f"not asked in this run: {silent}")
        except errors.KubeError as error:
            answered[key] = failed(str(error))
            silent = error if isinstance(error, errors.Unreachable | errors.TooManyRequests) else None
    return answered

"""Control planes that files of a group share in a worker until its last: an idle one takes 4 % of a core."""

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
_entered = contextlib.ExitStack()
_things: dict[str, Any] = {}


def shared(name: str, start: Callable[[], contextlib.AbstractContextManager[T]]) -> T:
    """Returns the thing of that name, started if no file of the group has asked for it yet."""
    if name not in _things:
        _things[name] = _entered.enter_context(start())
    thing: T = _things[name]
    return thing


def end() -> None:
    """Ends all of it, the youngest first."""
    _things.clear()
    _entered.close()

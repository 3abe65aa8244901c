"""RFC 7396 merge patches, and JSON as it comes over the wire. Pure; `writes` calls it."""

from collections.abc import Mapping
from typing import Any

import msgspec

from simulator.apiserver import refusals

Body = dict[str, Any]

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def text(body: object) -> bytes:
    """A body as it is sent; Invalid for what JSON cannot say."""
    try:
        return _encoder.encode(body)
    except (TypeError, ValueError) as error:
        raise refusals.bad_request(f"the body is not JSON: {error}") from error


def wire(body: Mapping[str, object]) -> Body:
    """A body as it arrives: plain JSON of its own, which no change of the sender's reaches any more."""
    return read(text(body))


def read(sent: bytes) -> Body:
    """A body from its text. Go reads null as an absent field, so it is absent."""
    body: Body = _decoder.decode(sent)
    return _without_nulls(body) if b"null" in sent else body


def patch(body: Mapping[str, object]) -> Body:
    """A merge patch as it arrives, where null means: remove."""
    change: Body = _decoder.decode(text(body))
    return change


def merged(target: Any, change: Any) -> Any:
    """The target with a merge patch applied; neither is changed, and what is not touched is shared.

    Where the patch says what is there already, the target itself comes back.
    """
    if not isinstance(change, dict):
        return target if target == change and type(target) is type(change) else change
    base: Body = target if isinstance(target, dict) else {}
    result = base
    for key, value in change.items():
        before = base.get(key)
        after = None if value is None else merged(before, value)
        if after is before and (key in base) is (value is not None):
            continue
        if result is target:
            result = dict(base)  # at the first difference: most of a patch's levels are copied, the rest is not
        if value is None:
            result.pop(key, None)
        else:
            result[key] = after
    return result


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value

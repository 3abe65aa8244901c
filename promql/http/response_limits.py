"""Reads the body of an answer: for a limited time, and no more of it than a service can bear.

The hook of `promql.http.client` calls `read` for every answer. The HTTP library's time limit counts from byte to byte,
so a server, or a proxy in front of it, that sends a few bytes now and then would hold a sync for hours. And it reads
whatever comes: a query in a policy that forgot to aggregate answers with a series per CPU and mode of every node, and a
service whose memory ends with that ends again at each restart.
"""

from collections.abc import Callable
from typing import Final

import requests
import urllib3

PIECE_BYTES: Final = 1 << 16
LARGEST_VECTOR_BYTES: Final = 64 << 20  # three times what 100,000 pods with long names answer


class TooSlow(requests.Timeout):
    """The body was still on its way when its time was over."""


class TooLarge(requests.RequestException):
    """The body is larger than what was asked for can be."""


def read(response: requests.Response, *, seconds: float, most_bytes: float, monotonic: Callable[[], float]) -> bytes:
    """The whole body, decompressed. Raises TooSlow, TooLarge, or what requests raises for a body that breaks off."""
    until_seconds, pieces, size_bytes = monotonic() + seconds, list[bytes](), 0
    try:
        while piece := response.raw.read1(PIECE_BYTES, decode_content=True):
            pieces.append(piece)
            size_bytes += len(piece)
            if size_bytes > most_bytes:
                raise TooLarge(f"over {most_bytes / (1 << 20):g} MiB")
            if monotonic() > until_seconds:
                raise TooSlow(f"{size_bytes} bytes in {seconds:g} s, and not all")
    except urllib3.exceptions.ReadTimeoutError as problem:
        raise TooSlow(f"{size_bytes} bytes, and then nothing for {seconds:g} s") from problem
    except urllib3.exceptions.DecodeError as problem:
        raise requests.exceptions.ContentDecodingError(problem) from problem
    except urllib3.exceptions.HTTPError as problem:
        raise requests.exceptions.ChunkedEncodingError(problem) from problem
    except requests.RequestException:
        response.close()  # what is left of the body must not be the beginning of the next answer
        raise
    return b"".join(pieces)

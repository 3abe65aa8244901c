"""Decoders are made by whichever thread asks first, several at once when a service starts."""

import subprocess
import sys

# The annotation of Deepest is evaluated while msgspec has `Inner` half built; another thread then wants `Inner`, too.
TWO_THREADS = """
import threading

import msgspec

from kube import decoding, objects

begun, answered = threading.Event(), threading.Event()


class Slow(type):
    def __getitem__(cls, item):
        begun.set()
        answered.wait(1.0)
        return item


class Late(metaclass=Slow):
    pass


class Deepest(msgspec.Struct, frozen=True):
    text: "Late[str]" = ""


class Inner(msgspec.Struct, frozen=True):
    deepest: Deepest = Deepest()


class First(objects.Identified, frozen=True, kw_only=True):
    inner: Inner = Inner()


class Second(objects.Identified, frozen=True, kw_only=True):
    inner: Inner = Inner()


first = threading.Thread(target=decoding.page, args=("GET /first", First, b'{"metadata":{},"items":[]}'))
first.start()
assert begun.wait(60)
print(decoding.one("GET /second", Second, b'{"inner":{"deepest":{"text":"whole"}}}').inner.deepest.text)
answered.set()
first.join()
"""


def test_a_decoder_made_while_another_thread_makes_one_is_whole() -> None:
    done = subprocess.run([sys.executable, "-c", TWO_THREADS], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "whole\n"), done.stderr

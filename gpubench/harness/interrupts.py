"""The signals by which a user, a terminal or a scheduler ends a command: all of them are answered alike.

Before a command has begun, nothing needs to be cleaned up and `cli/__main__.py` ends the process at once. From then on
the first signal raises KeyboardInterrupt, and those that follow while the command puts things in order go unheard.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGXCPU)
PUTTING_IN_ORDER_SECONDS = 20.0  # longer than it takes to end a gang and the sampler, even where the kernel is slow

_first: Callable[[int, FrameType | None], None] | None = None
_raised_at: float | None = None


def has_come() -> bool:
    """Whether a signal has ended the command, whatever became of the KeyboardInterrupt on its way."""
    return _raised_at is not None


def took_over_from(handler: Callable[[int, FrameType | None], None]) -> None:
    """The command has begun with `handler`, which `raise_from_now_on` may replace; no other handler is touched."""
    global _first
    _first = handler


def raise_from_now_on() -> None:
    """From now on a signal raises KeyboardInterrupt, where the command's first handler has answered so far."""
    for signum in SIGNALS:
        if _first is not None and signal.getsignal(signum) is _first:
            signal.signal(signum, _raise)


def ignore_from_now_on() -> None:
    """From now on no signal counts: all is done but the last line. Where `raise_from_now_on` has answered so far."""
    for signum in SIGNALS:
        if signal.getsignal(signum) is _raise:
            signal.signal(signum, signal.SIG_IGN)


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Within the block, in the main thread, each of the signals raises KeyboardInterrupt, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signum: signal.getsignal(signum) for signum in SIGNALS}
    for signum, handler in before.items():
        if handler == signal.SIG_DFL:
            signal.signal(signum, signal.default_int_handler)
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextlib.contextmanager
def deferred() -> Iterator[None]:
    """The signals wait until the block is done: a second one must not undo what the first one asked for."""
    if threading.current_thread() is not threading.main_thread():
        yield  # they are never delivered here
        return
    arrived: list[int] = []
    handlers = {
        signum: signal.signal(signum, lambda number, frame: arrived.append(number))
        for signum in SIGNALS
        if signal.getsignal(signum) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)
        for number in arrived[:1]:
            signal.raise_signal(number)


def _raise(signum: int, frame: FrameType | None) -> None:
    global _raised_at
    now = time.monotonic()
    if _raised_at is not None and now - _raised_at < PUTTING_IN_ORDER_SECONDS:
        return
    _raised_at = now
    raise KeyboardInterrupt

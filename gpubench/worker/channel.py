"""The worker's end of the line to the harness, out of reach of whatever the framework prints or reads."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import BinaryIO

from gpubench.spec.messages import MESSAGE_FD_VARIABLE, Order, Report, from_line, to_line

PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Channel:
    """Orders come on what was standard input; messages go to a descriptor that children do not inherit."""

    def __init__(self) -> None:
        self._orders: BinaryIO = os.fdopen(os.dup(0), "rb", buffering=0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        self._messages = int(os.environ.pop(MESSAGE_FD_VARIABLE))
        os.set_inheritable(self._messages, False)
        self._buffer = b""

    def receive(self) -> Order | None:
        """The next order; None once the harness has gone."""
        while b"\n" not in self._buffer:
            chunk = self._orders.read(65536)
            if not chunk:
                return None
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\n", 1)
        order = from_line(line)
        assert isinstance(order, Order)
        return order

    def send(self, message: Report) -> None:
        data = to_line(message).encode()
        while data:
            data = data[os.write(self._messages, data) :]


def die_with_parent() -> None:
    """End this process when the harness ends, however it does: no worker outlives its run."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)

"""Standard output and error as users have them: closed, full, a pipe that nobody reads, a terminal without Unicode."""

from __future__ import annotations

import contextlib
import io
import os
import sys

import click


def prepare() -> None:
    """Make the standard streams safe to write to, whatever the locale and whatever the shell has closed.

    A descriptor that was closed is opened on nothing: else the next file that is opened, a journal, would take its
    number, and whatever a child process prints would land in that file.
    """
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows ASCII only gets question marks


def flush() -> None:
    """Write out what is still held back. OSError where nobody can take it."""
    if sys.stdout is None:
        raise OSError("standard output is closed")
    sys.stdout.flush()


def give_up_output() -> None:
    """Let what is left go nowhere; else Python would complain once more when it ends, and change the exit code."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115  (it stays open until the process ends)


def tell(text: str) -> None:
    """A line on standard error. Nobody reading it is no reason to end otherwise."""
    with contextlib.suppress(OSError):
        click.echo(text, err=True)


def give_up_errors_that_nobody_takes() -> None:
    """Let what standard error still holds go nowhere if it cannot be written: Python would end with 120 for it."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  (it stays open until the process ends)

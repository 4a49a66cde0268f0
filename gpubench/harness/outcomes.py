"""Which rank was first to fail, of what, and what the user can do about it."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from gpubench.files.untrusted import read_tail
from gpubench.spec.errors import UsageError
from gpubench.spec.messages import Failed
from gpubench.spec.record import Outcome, Phase, Status

TAIL_LINES = 12
TAIL_BYTES = 1 << 16
# How an allocator says so when it ends the process instead of raising.
OUT_OF_MEMORY_WORDS = (
    "std::bad_alloc",
    "out of memory",
    "Cannot allocate memory",
    "can't allocate memory",
    "MemoryError",
)
REMEDIES: dict[str, str] = {
    "oom": "Use a smaller --per-device-batch, or a device with more memory.",
    "timeout": "The log says where it stands. A hung collective often means a firewall, a wrong network interface or "
    "a rank that died; a slow machine may need a smaller batch.",
    "rank_died": "The log's end may say why. Signal 9 often is the kernel's out-of-memory killer: see `dmesg`.",
    "failed": "The log holds the traceback.",
}


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How one rank stands when the gang is judged. `exit_code` is None while it runs; negative is a signal."""

    rank: int
    exit_code: int | None
    last_words: Failed | None
    log: Path
    stopped: bool = False


def judge(
    endings: Sequence[Ending], phase: Phase, late: Sequence[int] = (), deadline_seconds: float | None = None
) -> Outcome:
    """The gang's outcome, laid at the door of the rank that was first to fail.

    A rank that was killed says nothing, and its peers then report a broken connection: so a rank that ended without
    a word comes first, then one that ran out of memory, then any that failed.
    """
    world = len(endings)
    silent = [e for e in endings if e.last_words is None and e.exit_code is not None]
    out_of_memory = [e for e in endings if e.last_words and e.last_words.status == "oom"]
    failed = [e for e in endings if e.last_words]
    if silent:
        culprit = silent[0]
        tail = log_tail(culprit.log)
        status: Status = "oom" if any(word in line for line in tail for word in OUT_OF_MEMORY_WORDS) else "rank_died"
        how = f"Rank {culprit.rank} of {world} ended with {_exit_words(culprit.exit_code)} in {_words(phase)}"
        return _outcome(status, culprit, phase, how + (": out of memory." if status == "oom" else "."))
    if out_of_memory or failed:
        culprit = (out_of_memory or failed)[0]
        words = culprit.last_words
        assert words is not None
        status = "oom" if words.status == "oom" else "failed"
        phase = cast(Phase, words.phase)  # it may be ahead of the harness, which waits for the slower ranks
        what = "ran out of memory" if status == "oom" else "failed"
        return _outcome(
            status, culprit, phase, f"Rank {culprit.rank} of {world} {what} in {_words(phase)}: {words.message}"
        )
    stopped = [e for e in endings if e.stopped]
    culprit = next((e for e in stopped or endings if e.rank in late or e.stopped), endings[0])
    ranks = "Rank " + ", ".join(map(str, late)) if len(late) < world or world == 1 else "No rank"
    has = "has not" if ranks != "No rank" else "has"
    message = f"{ranks} of {world} {has} finished {_words(phase)} within {deadline_seconds:g} s."
    if stopped:
        message += f" Rank {stopped[0].rank} is stopped (SIGSTOP or a debugger)."
    return _outcome("timeout", culprit, phase, message)


def garbled(ending: Ending, world: int, phase: Phase, error: Exception) -> Outcome:
    """The outcome where a rank has sent what is no message: nothing that it says can be relied on."""
    message = f"Rank {ending.rank} of {world} sent what is no message in {_words(phase)}: {error}"
    return _outcome("failed", ending, phase, message[:2000])


def log_tail(log: Path, lines: int = TAIL_LINES) -> list[str]:
    """The last lines of a log of any size; the control characters in it made harmless."""
    try:
        text = read_tail(log, TAIL_BYTES).decode(errors="replace")
    except (OSError, UsageError):
        return []
    return [printable(line)[:400] for line in text.splitlines()[-lines:]]


def printable(text: str) -> str:
    """The text without what a terminal would obey."""
    return "".join(c if c.isprintable() or c == " " else "\N{REPLACEMENT CHARACTER}" for c in text.expandtabs(4))


def _outcome(status: Status, culprit: Ending, phase: Phase, message: str) -> Outcome:
    return Outcome(
        status=status,
        rank=culprit.rank,
        phase=phase,
        message=printable(message),
        remedy=REMEDIES[status],
        log=printable(str(culprit.log)),  # a name that is no UTF-8 has no place in JSON
        log_tail=log_tail(culprit.log),
    )


def _words(phase: Phase) -> str:
    return {"warm_up": "warm-up", "round": "a round"}.get(phase, phase)


def _exit_words(exit_code: int | None) -> str:
    assert exit_code is not None
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"signal {-exit_code} ({signal.Signals(-exit_code).name})"
    except ValueError:
        return f"signal {-exit_code}"

"""Which rank was first to fail, of what, and what the user can do about it."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

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
    "rank_died": "The log's end may say why.",
    "failed": "The log holds the traceback.",
}
KILLED_FOR_MEMORY = (
    "The machine, or its container's or job's limit, has too little memory for it: free some, raise the limit, or use "
    "a smaller --per-device-batch."
)
# What a signal means that ended a rank, and what to do; the kernel sends all but the first.
SIGNALS: dict[int, str] = {
    signal.SIGKILL: "Somebody killed it: a scheduler at the end of its time or memory, an administrator, or the kernel "
    "for want of memory where it does not tell us (see `dmesg`).",
    signal.SIGXCPU: "It has used up its CPU time: raise that limit (`ulimit -t`).",
    signal.SIGXFSZ: "A file became larger than is allowed: raise that limit (`ulimit -f`).",
    signal.SIGBUS: "Shared memory or a disk may be full: give /dev/shm more room (in a container: --shm-size).",
}
# What kept a launch from starting, by the error's number, and what to do.
LACKS = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "Free some space there, or set TMPDIR to a folder that has some."),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "Allow more open files: `ulimit -n 1024`."),
    errno.EAGAIN: "Allow more processes: `ulimit -u`, or end some.",
    errno.ENOMEM: "Free some memory, or raise its limit (`ulimit -v`).",
}


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How one rank stands when the gang is judged. `exit_code` is None while it runs; negative is a signal."""

    rank: int
    exit_code: int | None
    last_words: Failed | None
    log: Path
    printed: bytes = b""  # the end of it
    stopped: bool = False
    oom_kills: int = 0  # by the kernel, of any process of the machine, since the rank was started


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
        how = f"Rank {culprit.rank} of {world} ended with {_exit_words(culprit.exit_code)} in {_words(phase)}"
        if any(word in line for line in log_tail(culprit.printed) for word in OUT_OF_MEMORY_WORDS):
            return _outcome("oom", culprit, phase, how + ": out of memory.")
        if culprit.exit_code == -signal.SIGKILL and culprit.oom_kills:
            how += ", while the kernel killed for want of memory."
            return replace(_outcome("oom", culprit, phase, how), remedy=KILLED_FOR_MEMORY)
        died = _outcome("rank_died", culprit, phase, how + ".")
        return replace(died, remedy=SIGNALS.get(-(culprit.exit_code or 0), died.remedy))
    if out_of_memory or failed:
        culprit = (out_of_memory or failed)[0]
        words = culprit.last_words
        assert words is not None
        status: Status = "oom" if words.status == "oom" else "failed"
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


def cannot_start(error: OSError, python: Path, framework: str) -> Outcome:
    """The outcome where the system refused what a launch needs, before its first rank ran."""
    is_python = error.filename is not None and os.fspath(error.filename) == os.fspath(python)
    remedy = f"Set the environment up anew: `gpubench setup {framework}`." if is_python else "See the system's limits."
    about = python if is_python else error.filename
    message = f"Cannot start {python}: {error.strerror}" + (f" ({about})" if about and not is_python else "")
    remedy = LACKS.get(error.errno or 0, remedy)
    return Outcome(status="failed", phase="start", message=printable(message), remedy=remedy)


def oom_kills(vmstat: Path = Path("/proc/vmstat")) -> int:
    """How many processes the kernel has killed for want of memory since the machine started; 0 if it does not tell."""
    try:
        counted = re.search(r"^oom_kill (\d+)$", vmstat.read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(counted[1]) if counted else 0


def log_tail(printed: bytes, lines: int = TAIL_LINES) -> list[str]:
    """The last lines of what was printed; the control characters in it made harmless."""
    return [printable(line)[:400] for line in printed.decode(errors="replace").splitlines()[-lines:]]


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
        log_tail=log_tail(culprit.printed),
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

"""Runs `gpubench` many times, each in a process with limits on memory and CPU time, and says how each ended.

A process that has loaded all that the commands need forks for each run, so that a run costs only what its files cost.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

MEMORY = 1 << 30  # bytes, of each process of a run; the issue's own limit, as that on the time is
CPU_SECONDS = 10
WAIT_SECONDS = 120  # for a run that sleeps: on a machine that others use, it says nothing about those that work


@dataclass(frozen=True)
class Ended:
    """How a run ended; `code` is negative where a signal ended it. `mebibytes` is the peak of its largest process."""

    words: list[str]
    code: int
    cpu_seconds: float
    mebibytes: int
    out: str
    err: str


def run(commands: Sequence[Sequence[str]], folder: Path) -> list[Ended]:
    """Each of `commands`, without the program's name, in `folder`."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.watchdog", str(folder)],
        input=json.dumps([list(map(str, words)) for words in commands]),
        capture_output=True,
        text=True,
        check=True,
    )
    return [Ended(**one) for one in json.loads(done.stdout)]


def _main() -> None:
    commands = json.load(sys.stdin)
    os.chdir(sys.argv[1])
    _load()
    print(json.dumps([asdict(_ended(words)) for words in commands]))


def _load() -> None:
    """What the commands import when they need it."""
    import matplotlib
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import scipy.stats  # noqa: F401

    import gpubench.cli.commands
    import gpubench.cli.comparing
    import gpubench.exporting.tables
    import gpubench.report.compare_html
    import gpubench.report.html
    import gpubench.report.plots
    import gpubench.report.terminal  # noqa: F401

    matplotlib.use("agg")


def _ended(words: list[str]) -> Ended:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            _run(words, out.fileno(), err.fileno())
        _, status, used = os.wait4(pid, 0)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(1 << 20).decode(errors="replace"))
    seconds = used.ru_utime + used.ru_stime
    return Ended(words, os.waitstatus_to_exitcode(status), seconds, used.ru_maxrss >> 10, *texts)


def _run(words: list[str], out: int, err: int) -> None:
    """Never returns."""
    import signal

    code = 99
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY, mapped + MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        signal.alarm(WAIT_SECONDS)
        from gpubench.cli import commands

        commands.main(words, prog_name="gpubench")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        from gpubench.files import series

        series._DECODER.close()  # what it took counts where it is waited for
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _main()

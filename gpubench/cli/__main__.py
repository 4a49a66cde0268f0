"""Where the `gpubench` command starts: it answers signals first, and imports the rest then."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` imports enum first, which takes as long as Python itself
import os

INTERRUPTED = "\ngpubench: interrupted; nothing is left running, and finished records are kept."
EXIT_CODE = 130


def main() -> None:
    """Run the command of this process's arguments, and end the process."""
    for signum in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT, _signal.SIGXCPU):
        if _signal.getsignal(signum) != _signal.SIG_IGN:  # nohup, or a shell that starts a job in the background
            _signal.signal(signum, end_at_once)
    from gpubench.cli import commands, streams
    from gpubench.harness import interrupts

    interrupts.took_over_from(end_at_once)
    try:
        commands.main(prog_name="gpubench")
    finally:
        if interrupts.has_come():  # Python would end with SIGINT where the exception has passed through exec()
            streams.give_up_errors_that_nobody_takes()
            os._exit(EXIT_CODE)


def end_at_once(signum: int, frame: object) -> None:
    """Nothing has been begun that would need to be cleaned up."""
    try:
        os.write(2, f"{INTERRUPTED}\n".encode())
    finally:  # also where nobody can read it
        os._exit(EXIT_CODE)


if __name__ == "__main__":
    main()

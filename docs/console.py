"""Puts into a page what its commands print: each line `$ gpubench …` of a console block is run in the project's folder.

    python docs/console.py docs/buying.md

A test runs the same and compares, so that the page shows what the tool prints. It needs no GPU and no framework.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"(```console\n\$ )(gpubench [^\n]+)\n(.*?)(```)", re.DOTALL)


def rewritten(page: str) -> str:
    """The page with the output of its commands as it is now."""
    return BLOCK.sub(lambda match: f"{match[1]}{match[2]}\n{output(match[2])}{match[4]}", page)


def output(command: str) -> str:
    """What a command prints on standard output, which is no terminal. CalledProcessError where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "gpubench.cli", *command.split()[1:]],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(rewritten(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

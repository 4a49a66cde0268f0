"""What it costs to read years of nightly runs: `show`, `compare` and `report` of up to 100,000 records.

    python benchmarks/self/large.py [--most 10000]

Makes journals (see `nights.py`) and reads them. Times are CPU times, as the machine may have other work, and are given
as ratios to decoding the same lines with msgspec alone, in the same process and by turns. Peaks of memory are of
processes of their own. Journals of very many launches, workloads or machines are measured too. Says of each target
whether it was reached, and whether times grow with the records and no faster; exits with 1 where one was not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import nights

MIB = 1 << 20
SIZES = (2_500, 5_000, 10_000)
MOST = 100_000
LINEAR = 1.25  # times the time of a record, from the smallest to the largest of SIZES
TURNS = 5
WAITED_SECONDS = 900

# Decoding and the command by turns; prints seconds of each turn and the peak, as JSON.
MEASURED = """
import contextlib, io, json, pathlib, resource, sys, time
import msgspec
from gpubench.cli.commands import main
from gpubench.spec.record import RunRecord

turns, page, command, *files = sys.argv[1:]
words = [command, *files, *(["-o", page] if command == "report" else [])]

def alone():
    for path in files:
        with open(path, "rb") as file:
            for line in file:
                msgspec.json.decode(line, type=RunRecord)

def whole():
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            main(words, standalone_mode=False)
        except SystemExit as ended:  # compare ends so, with its verdict as exit code
            if ended.code:
                raise

def seconds(what):
    begun = time.process_time()
    what()
    return time.process_time() - begun

if turns == "0":
    taken = [[0.0, seconds(whole)]]
else:
    whole()  # imports what it needs
    taken = [[seconds(alone), seconds(whole)] for _ in range(int(turns))]
print(json.dumps([taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10]))
"""


@dataclass(frozen=True)
class Measured:
    """`ratio` is the median over the turns; None where decoding alone was not timed."""

    seconds: float
    ratio: float | None
    peak_bytes: int


def measured(command: str, files: list[Path], turns: int, page: Path) -> Measured:
    words = [sys.executable, "-c", MEASURED, str(turns), str(page), command, *map(str, files)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=WAITED_SECONDS)
    if done.returncode != 0:
        raise SystemExit(f"{command} ended with {done.returncode}:\n{done.stderr}")
    taken, peak_bytes = json.loads(done.stdout.splitlines()[-1])
    ratios = sorted(with_all / alone for alone, with_all in taken if alone)
    seconds = sorted(with_all for _, with_all in taken)
    return Measured(seconds[len(seconds) // 2], ratios[len(ratios) // 2] if ratios else None, peak_bytes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=MOST, help="leave out larger journals than this")
    options = parser.parse_args()
    targets: list[tuple[str, str, bool]] = []
    grown: dict[str, list[float]] = {}  # by command, CPU seconds of a record at each of SIZES
    print("command  records    MiB    seconds  x msgspec  peak MiB  page MiB")
    with tempfile.TemporaryDirectory(prefix="gpubench-large-") as folder:
        for size in (*SIZES, MOST):
            if size > options.most:
                continue
            journal, older, newer = (Path(folder, f"{number:04}_nights.jsonl") for number in (1, 2, 3))
            nights.write(journal, size)
            commands: dict[str, list[Path]] = {"show": [journal]}
            if size <= SIZES[-1]:
                nights.write(older, size // 2, n_machines=1, seed=1)
                nights.write(newer, size // 2, n_machines=1, seed=2, slower=1.02)
                commands |= {"compare": [older, newer], "report": [journal]}
            for command, files in commands.items():
                page = Path(folder, "page.html")
                found = measured(command, files, 0 if command == "report" or size == MOST else TURNS, page)
                once = measured(command, files, 0, page) if found.ratio is not None else found
                page_bytes = page.stat().st_size if command == "report" else 0
                _row(command, size, files, found, once.peak_bytes, page_bytes)
                targets += _judged(command, size, found, once.peak_bytes, page_bytes)
                grown.setdefault(command, []).append(found.seconds / size)
        for what, odd in nights.ODD.items():
            path = Path(folder, "0009_odd.jsonl")
            size = nights.write_odd(path, odd)
            if size > options.most:
                continue
            for command in ("show", "report"):
                page = Path(folder, "page.html")
                found = measured(command, [path], 0, page)
                _row(command, size, [path], found, found.peak_bytes, page.stat().st_size if command == "report" else 0)
                told = f"{found.seconds:.1f} s and {found.peak_bytes / MIB:.0f} MiB"
                is_reached = found.seconds < 10 and found.peak_bytes < 1024 * MIB
                targets.append((f"{command} of {what} within 10 s and 1 GiB", told, is_reached))
    for command, each in grown.items():
        if command != "report" and len(each) >= len(SIZES):  # most of a report's time is the plots'
            growth = each[len(SIZES) - 1] / each[0]
            what = f"{command}: a record of {SIZES[-1]:,} takes at most {LINEAR} times one of {SIZES[0]:,}"
            targets.append((what, f"{growth:.2f} times", growth <= LINEAR))
    print()
    for name, reached, is_reached in targets:
        print(f"{'reached' if is_reached else 'MISSED':<8} {name}: {reached}")
    sys.exit(0 if all(is_reached for *_, is_reached in targets) else 1)


def _row(command: str, size: int, files: list[Path], found: Measured, peak: int, page: int) -> None:
    mib = sum(path.stat().st_size for path in files) / MIB
    ratio = "" if found.ratio is None else f"{found.ratio:.1f}"
    shown = f"{page / MIB:.1f}" if page else ""
    print(
        f"{command:<8} {size:>7} {mib:>6.0f} {found.seconds:>10.1f} {ratio:>10} {peak / MIB:>9.0f} {shown:>9}",
        flush=True,
    )


def _judged(command: str, size: int, found: Measured, peak: int, page: int) -> list[tuple[str, str, bool]]:
    what = f"{command} of {size:,}"
    if size == MOST:
        return [(f"{what} under 1 GiB", f"{peak / MIB:.0f} MiB", peak < 1024 * MIB)]
    if size != SIZES[-1]:
        return []
    if command == "report":
        return [
            (f"{what} within 30 s", f"{found.seconds:.1f} s", found.seconds < 30),
            (f"{what}: a page under 5 MiB", f"{page / MIB:.1f} MiB", page < 5 * MIB),
        ]
    assert found.ratio is not None
    return [
        (f"{what} within 3 times msgspec", f"{found.ratio:.1f} times", found.ratio <= 3),
        (f"{what} under 400 MiB", f"{peak / MIB:.0f} MiB", peak < 400 * MIB),
    ]


if __name__ == "__main__":
    main()

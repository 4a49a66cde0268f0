"""The commands of `gpubench`. Results go to standard output, progress and errors to standard error.

What a command needs is imported inside it, so that `gpubench --help` and `gpubench list` start at once.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpubench import __version__
from gpubench.cli import commands_on_files, streams
from gpubench.cli.__main__ import EXIT_CODE, INTERRUPTED
from gpubench.cli.commands_on_files import COLUMNS, RESULTS
from gpubench.cli.options import batch, counts, duration, inches, until, words
from gpubench.harness import interrupts
from gpubench.spec.errors import EXIT_CODES, GpubenchError, UsageError

if TYPE_CHECKING:
    from gpubench.files.reducing import ReducedRun
    from gpubench.files.store import Journal, Run
    from gpubench.spec.record import RunRecord

PYTHON = click.option(
    "--python", "pythons", multiple=True, metavar="NAME=PATH", help="The Python that has a framework (repeatable)."
)


class Commands(click.Group):
    """Turns the errors that a user can do something about into one message and an exit code."""

    def main(self, *args: Any, **options: Any) -> Any:
        streams.prepare()
        try:
            return super().main(*args, **options)
        except OSError as error:  # of --help and --version, which click answers before a command is invoked
            streams.give_up_output()
            streams.tell(f"gpubench: {error.strerror or error}.")
            sys.exit(1)
        finally:
            streams.give_up_errors_that_nobody_takes()

    def invoke(self, ctx: click.Context) -> Any:
        interrupts.raise_from_now_on()
        try:
            return self._answered(ctx)
        except BaseException as error:
            # A library may have made another error of it, of an import that was cut off for example.
            if isinstance(error, KeyboardInterrupt) or interrupts.has_come():
                interrupts.ignore_from_now_on()
                streams.tell(INTERRUPTED)
                ctx.exit(EXIT_CODE)
            raise
        finally:
            interrupts.ignore_from_now_on()

    def _answered(self, ctx: click.Context) -> Any:
        try:
            try:
                return super().invoke(ctx)
            finally:
                streams.flush()
        except BrokenPipeError:
            streams.give_up_output()
            ctx.exit(1)
        except OSError as error:
            streams.give_up_output()
            streams.tell(f"gpubench: {error.strerror or error}.")
            ctx.exit(1)
        except GpubenchError as error:
            streams.tell(f"gpubench: {error}")
            ctx.exit(error.exit_code)
        except (ImportError, MemoryError) as error:
            if interrupts.has_come():
                raise
            told = str(error).partition("\n")[0] or "the memory is full"
            streams.tell(
                f"gpubench: {told}. To do: see whether memory is limited (`ulimit -v`), or install gpubench anew."
            )
            ctx.exit(GpubenchError.exit_code)


CODES = "\b\nExit codes:\n" + "\n".join(f"  {code:<4} {meaning}" for code, meaning in EXIT_CODES.items())


@click.group(
    cls=Commands, epilog=CODES, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="gpubench")
def main() -> None:
    """Measure how training throughput scales over 1, 2 and more devices, and see why.

    \b
    Example:
      gpubench setup torch
      gpubench run --frameworks torch --devices 1,2 --save first
      gpubench report first -o report.html
    """


@main.command("list")
@click.argument("word", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def list_(word: str | None, as_json: bool) -> None:
    """Workloads, frameworks and strategies; with WORD, those that answer to it.

    \b
    Example:
      gpubench list
      gpubench list multi_gpu_model
    """
    from gpubench.cli import listing
    from gpubench.harness import machine

    this = machine.describe()
    if line := this.gpu_refusal or machine.fallback("auto", this):
        streams.tell(line)
    click.echo(listing.as_json(word) if as_json else listing.as_text(word))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Also write what the driver answers to each call, without who the GPUs are: for a bug report.",
)
@PYTHON
def doctor(as_json: bool, record: Path | None, pythons: tuple[str, ...]) -> None:
    """What this machine has, what each framework finds of it, and what cannot be measured here.

    Exits with 1 where no framework could run, or where a benchmark would mislead.

    \b
    Example:
      gpubench doctor
    """
    from gpubench.cli import checkup
    from gpubench.harness import registry
    from gpubench.harness.interpreters import Interpreters

    if record is not None:
        checkup.save_recording(record)
    found = checkup.examine(Interpreters.parse(list(pythons), list(registry.frameworks())))
    if found["no_gpu"]:
        streams.tell(found["no_gpu"])
    click.echo(json.dumps(found, indent=2) if as_json else checkup.as_text(found))
    if checkup.misleads(found) or not any("version" in framework for framework in found["frameworks"].values()):
        sys.exit(1)


@main.command()
@click.argument("frameworks", nargs=-1)
@click.option(
    "--device-kind",
    type=click.Choice(["auto", "cpu", "gpu"]),
    default="auto",
    show_default=True,
    help="Which build to install; auto takes GPUs where NVML sees one.",
)
def setup(frameworks: tuple[str, ...], device_kind: str) -> None:
    """Make a virtual environment for each of FRAMEWORKS, with the versions that gpubench is tested with.

    What cannot be made is named, with the reason and what to do, and the rest is made. Exits with 1 where one of
    FRAMEWORKS could not be made; without FRAMEWORKS all are tried, and it exits with 3 only where none could be made.

    \b
    Example:
      gpubench setup
      gpubench setup torch tensorflow mxnet
    """
    from gpubench.cli import making

    making.setup(frameworks, device_kind, lambda text: click.echo(text, err=True))


@main.command()
@click.option("--suite", help="quick, standard or full: what to run unless said otherwise.  [default: quick]")
@click.option(
    "--plan", "plan_file", type=click.Path(path_type=Path), help="TOML file with these settings; see docs/plans.md."
)
@click.option("--workloads", callback=words, help="E.g. mlp,resnet20.")
@click.option("--frameworks", callback=words, help="E.g. torch,tensorflow.")
@click.option("--strategies", callback=words, help="E.g. ddp,mirrored; each one's baseline `single` comes along.")
@click.option("--devices", callback=counts, help="Device counts, e.g. 1,2,4,8.")
@click.option("--device-kind", type=click.Choice(["auto", "cpu", "gpu"]), help="GPUs or CPU shares.  [default: auto]")
@click.option("--precision", callback=words, help="fp32, tf32, bf16.")
@click.option("--scaling", callback=words, help="weak, strong.")
@click.option(
    "--per-device-batch",
    callback=batch,
    metavar="N,N|auto|knee",
    help="Samples that one device sees in a step, each number a series; auto: as many as fit; knee: the fewest that "
    "are nearly as fast.",
)
@click.option("--launches", type=int, help="Fresh process groups of each case.")
@click.option("--save", "name", help="The run's name.  [default: run]")
@click.option("--seed", type=int, help="Of the order of launches, and of data and weights.  [default: 0]")
@click.option(
    "--paired/--no-paired",
    "paired",
    default=None,
    callback=lambda ctx, parameter, value: {None: None, True: "yes", False: "no"}[value],
    help="Alternate the rounds of gang and baseline.  [default: where launches differ much]",
)
@click.option(
    "--until",
    callback=until,
    metavar="PERCENT",
    help="Measure in pairs until each scaling efficiency is known to ± this, e.g. 2%. throughput=2%: until each "
    "throughput is.",
)
@click.option(
    "--budget", "budget_seconds", callback=duration, metavar="TIME", help="Start nothing behind it, e.g. 20m."
)
@click.option(
    "--wait-quiet",
    "wait_quiet_seconds",
    callback=duration,
    metavar="TIME",
    help="Before a launch, wait up to so long for the devices to be idle, e.g. 60s.",
)
@click.option("--resume", metavar="RUN", help="Continue RUN, a name or number, by its own plan; runs what is missing.")
@click.option("--machine", metavar="NAME", help="Call this machine NAME.  [default: its host name]")
@click.option("--dry-run", is_flag=True, help="Say what would run, and what would not and why.")
@click.option("--quiet", "-q", is_flag=True, help="Only results and what went wrong.")
@RESULTS
@PYTHON
def run(
    suite: str | None,
    plan_file: Path | None,
    name: str | None,
    resume: str | None,
    dry_run: bool,
    quiet: bool,
    results: Path,
    pythons: tuple[str, ...],
    **options: Any,
) -> None:
    """Run cases on this machine's devices, and show the throughput and scaling table.

    \b
    Example:
      gpubench run --workloads resnet20 --frameworks torch --devices 1,2 --save first
    """
    from gpubench import forecast
    from gpubench.cli import dry_run as dry
    from gpubench.cli import ending, running
    from gpubench.files.store import Journal, machine_folder
    from gpubench.harness import machine, plan, registry
    from gpubench.harness.interpreters import Interpreters
    from gpubench.harness.settings import to_toml

    begun = running.begun(resume, name, results) if resume is not None else None  # before all else: it may be none
    given = plan.given(suite, plan_file, {**options, "python": pythons})
    asked = plan.of_settings(given)
    this = machine.describe(asked.machine)
    interpreters = Interpreters.parse(list(asked.python), list(registry.frameworks()))
    if begun is None:
        wanted = plan.resolved(asked, this, interpreters)
    else:
        this = running.same_machine(begun, this, asked.machine)
        wanted, interpreters = running.continued_plan(begun, given, this, interpreters)
    strict = begun is None and (plan_file is not None or bool(options["devices"]))  # else it has what there was
    cases = plan.cases(wanted, this, interpreters, strict_devices=strict)
    if begun is not None:
        running.see_that_it_fits(begun, cases, wanted)
    elif line := machine.fallback(asked.device_kind, this):
        streams.tell(line)
    if cases.runnable:
        cases = plan.asked_for(cases, wanted)
    told = forecast.before(wanted, cases, this, results) if cases.runnable else None
    if dry_run:
        click.echo(dry.as_text(cases, wanted, this, begun.records if begun is not None else (), told))
        if not cases.runnable:
            running.nothing_to_run(cases)
        return
    for skipped in cases.skipped:
        with contextlib.suppress(OSError):  # as of all progress: nobody may be reading it
            click.echo(f"skipped {skipped.case.id}: {skipped.reason}", err=True)
    if not cases.runnable:
        running.nothing_to_run(cases)
    journal = Journal.reopen(begun.path) if begun else Journal.create(results, machine_folder(), name or "run")
    journal.keep_plan(to_toml(replace(wanted, budget_seconds=None)))  # a budget is that of one command
    try:
        records, measured = running.launches(cases, wanted, this, journal, quiet, journal.records, told)
    finally:
        journal.see_that_it_stands(at_the_end=True)
    run_ = _as_run(journal, records)
    with ending.however_it_is_shown(journal.path):
        _show([run_], as_json=False)
    streams.tell(f"\nSaved in {journal.path}\nNext: gpubench report {journal.path} -o report.html")
    sys.exit(ending.judged(journal.path, measured, wanted, run_))


@main.command()
@click.option("--workloads", callback=words, help="E.g. mlp,resnet20.  [default: those that train quickly]")
@click.option("--frameworks", callback=words, help="E.g. torch,tensorflow.")
@click.option("--strategies", callback=words, help="E.g. ddp,mirrored.")
@click.option("--devices", callback=counts, help="Device counts, e.g. 1,2,4,8.")
@click.option(
    "--device-kind",
    type=click.Choice(["auto", "cpu", "gpu"]),
    default="auto",
    show_default=True,
    help="GPUs or CPU shares.",
)
@RESULTS
@PYTHON
def verify(results: Path, pythons: tuple[str, ...], **options: Any) -> None:
    """Show that it is the same work: across frameworks, and on n devices as on one.

    From the same weights and samples, every framework must come to the same loss and gradients, and every strategy to
    the weights that one device reaches on the same batches. What passes is kept in RESULTS and shown as a badge.

    \b
    Example:
      gpubench verify --frameworks torch --devices 1,2
    """
    from gpubench.cli import verifying
    from gpubench.harness import registry
    from gpubench.harness.interpreters import Interpreters

    interpreters = Interpreters.parse(list(pythons), list(registry.frameworks()))
    request = verifying.Request(**options)
    found = verifying.run(request, interpreters, results, lambda text: click.echo(text, err=True))
    click.echo(verifying.as_text(found))
    if not all(one.passed for one in found):
        sys.exit(1)


@main.command()
@click.argument("run_", metavar="RUN", default="last")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "markdown", "csv"]),
    default="table",
    show_default=True,
    help="How to print it.",
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@COLUMNS
@RESULTS
def show(run_: str, form: str, as_json: bool, columns: tuple[str, ...], results: Path) -> None:
    """The table of RUN: a number, a name, a path, or `last`.

    \b
    Example:
      gpubench show first
      gpubench show results/box/0001_first.jsonl --format csv
      gpubench show first --columns strategy,n_devices,scaling_efficiency
    """
    _show([_load(run_, results)], as_json, form, columns)


@main.command()
@click.argument("runs", metavar="RUN…", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("report.html"),
    show_default=True,
    help="The page.",
)
@click.option("--plots", "formats", callback=words, metavar="A,B", help="png, svg, pdf.  [default: png,svg]")
@click.option("--width", callback=inches, metavar="WIDTH", help="Of the plots beside the page, e.g. 3.3in or 84mm.")
@click.option("--title", metavar="TEXT", help="Of the plots beside the page, instead of what was trained.")
@RESULTS
def report(
    runs: tuple[str, ...],
    output: Path,
    formats: tuple[str, ...],
    width: float | None,
    title: str | None,
    results: Path,
) -> None:
    """Write one self-contained HTML page about RUN…, and its plots beside it.

    \b
    Example:
      gpubench report first -o report.html
      gpubench report first --plots pdf --width 3.3in
    """
    from gpubench.analysis.scaling import summarize_runs
    from gpubench.files.outputs import may_fill, may_write
    from gpubench.files.store import apart
    from gpubench.report.html import write_html
    from gpubench.report.plots import SUFFIXES, Form, write_plots

    may_write(output, (".html", ".htm"))
    may_fill(output.with_suffix(".plots"))
    for name in formats:
        if name not in SUFFIXES:
            raise UsageError(f"--plots takes {', '.join(SUFFIXES)}; got {name!r}.")
    if title is not None and not title.strip():
        raise UsageError("--title is empty.")
    form = Form(formats or Form.suffixes, width or Form.width_inches, title or "")
    loaded = apart([_load(run_, results, traces=True) for run_ in runs])
    with _writing(output):
        summaries = summarize_runs(loaded)
        write_html(loaded, output, summaries)
        plots = write_plots(summaries, output.with_suffix(".plots"), form)
    for path in [output, *plots]:
        click.echo(path)


def _load(word: str, results: Path, traces: bool = False) -> ReducedRun:
    from gpubench.files import reducing, store

    loaded = reducing.load(store.find(word, results))
    if traces:
        loaded = reducing.with_traces(loaded)
    for warning in loaded.warnings:
        click.echo(f"gpubench: {warning}", err=True)
    if lines := loaded.skipped_lines:
        click.echo(f"gpubench: {lines} line{'s' if lines > 1 else ''} of {loaded.path.name} skipped", err=True)
    return loaded


def _show(runs: Sequence[Run | ReducedRun], as_json: bool, form: str = "table", columns: Sequence[str] = ()) -> None:
    from gpubench.analysis.scaling import summarize_runs
    from gpubench.report import tables

    summaries = summarize_runs(runs)
    if as_json:
        click.echo(json.dumps(tables.rows(summaries, columns), indent=2))
    elif form == "csv":
        click.echo(tables.to_csv(summaries, columns), nl=False)
    elif form == "markdown":
        click.echo(tables.to_markdown(summaries, columns))
    else:
        from gpubench.report import terminal

        terminal.show(lambda width: tables.to_rich(summaries, width, columns))


def _as_run(journal: Journal, records: list[RunRecord]) -> Run:
    from gpubench.files.store import Run
    from gpubench.files.verified import beside

    return Run(name=journal.path.stem, path=journal.path, records=records, verifications=beside(journal.path))


class _writing:
    """Says which file could not be written, and why."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise UsageError(f"Cannot write {self.path}: {error.strerror}.") from error


for command in (commands_on_files.compare, commands_on_files.pack, commands_on_files.unpack, commands_on_files.export):
    main.add_command(command)

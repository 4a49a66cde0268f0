"""The commands that need files alone: compare, pack, unpack, export."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpubench.cli import streams
from gpubench.cli.options import percent, words
from gpubench.spec.errors import GpubenchError, NotResolvedError, UsageError

if TYPE_CHECKING:
    from gpubench.cli.comparing import Compared

RESULTS = click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("results"),
    show_default=True,
    help="Folder of the runs.",
)
GATE_EXITS = {"not_slower": 0, "slower": GpubenchError.exit_code, "not_resolved": NotResolvedError.exit_code}
FILE = click.Path(path_type=Path, dir_okay=False)
COLUMNS = click.option(
    "--columns", callback=words, metavar="A,B,C", help="Only these, in this order; docs/export.md has the names."
)


@click.command()
@click.argument("runs", metavar="A B [C…]", nargs=-1, required=True)
@click.option("--prices", type=FILE, help="TOML file: what each machine costs.")
@click.option("--mix", type=FILE, help="TOML file: how many samples of what a month.")
@click.option(
    "--fail-if-slower",
    callback=percent,
    metavar="PERCENT",
    help="Exit with 1 where a case is slower by more, e.g. 3%, and with 4 where one is not resolved.",
)
@click.option("-o", "--output", type=FILE, help="Also write an HTML page, and its plots beside it.")
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@RESULTS
def compare(
    runs: tuple[str, ...],
    prices: Path | None,
    mix: Path | None,
    fail_if_slower: float | None,
    output: Path | None,
    as_json: bool,
    results: Path,
) -> None:
    """Compare machines, software or dates with A, the reference: runs, folders of runs, or packed bundles.

    \b
    With --fail-if-slower every case of A must have a number on every other side:
      exit 0  no case is slower by more, each by its whole interval
      exit 1  a case is slower by more, by its whole interval
      exit 4  none is, but one is not resolved: no number, no interval, not measured, too wide, or a launch lost

    \b
    Example:
      gpubench compare vendor_a/ vendor_b/ --prices prices.toml --mix mix.toml -o compare.html
      gpubench compare last_month last_night --fail-if-slower 3%
    """
    from gpubench.cli import comparing
    from gpubench.files.outputs import may_fill, may_write

    if output is not None:
        may_write(output, (".html", ".htm"))
        may_fill(output.with_suffix(".plots"))
    compared = comparing.run(runs, results, prices, mix)
    found = None if fail_if_slower is None else comparing.judge(compared, fail_if_slower)
    for warning in compared.warnings:
        click.echo(f"gpubench: {warning}", err=True)
    if as_json:
        click.echo(comparing.as_json(compared, found))
    else:
        from gpubench.report import terminal
        from gpubench.report.compare_tables import to_rich

        terminal.show(lambda width: to_rich(compared.study))
    code = 0
    if found is not None:
        for line in comparing.gate_lines(found):
            click.echo(f"gpubench: {line}", err=True)
        code = GATE_EXITS[found.kind]
    if output is not None:
        try:
            _write_page(compared, output)
        except UsageError as error:
            streams.tell(f"gpubench: {error}")
            code = code or error.exit_code  # the gate's verdict stands, whatever became of the page
    sys.exit(code)


@click.command()
@click.argument("run_", metavar="RUN", default="last")
@click.option("-o", "--output", type=FILE, help="The bundle.  [default: the run's name, .gpubench.zip]")
@click.option(
    "--redact/--no-redact", default=True, show_default=True, help="Leave out hosts, users, paths, addresses, secrets."
)
@RESULTS
def pack(run_: str, output: Path | None, redact: bool, results: Path) -> None:
    """One file of RUN to hand on: records, telemetry, environment and checks, with checksums.

    \b
    Example:
      gpubench pack first -o first.gpubench.zip
    """
    from gpubench.files import bundle, store
    from gpubench.files.outputs import may_write

    loaded = store.load(store.find(run_, results))
    for warning in loaded.warnings:
        click.echo(f"gpubench: {warning}", err=True)
    target = output or Path(loaded.path.stem + bundle.SUFFIX)
    may_write(target, (".zip",))
    packed = bundle.pack(loaded, target, redact)
    for warning in packed.warnings:
        click.echo(f"gpubench: {warning}", err=True)
    click.echo(f"{target}\nsha256 {packed.sha256}")


@click.command()
@click.argument("file", metavar="FILE", type=FILE)
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Folder for the run's files.  [default: this one]",
)
def unpack(file: Path, folder: Path) -> None:
    """Check a bundle and write its run's files.

    \b
    Example:
      gpubench unpack vendor.gpubench.zip -o vendor/
    """
    from gpubench.files import bundle

    for path in bundle.unpack(file, folder):
        click.echo(path)
    if lines := bundle.read(file).skipped_lines:
        click.echo(
            f"gpubench: {lines} line{'s' if lines > 1 else ''} of its run could not be read when it was packed",
            err=True,
        )


@click.command()
@click.argument("runs", metavar="RUN…", nargs=-1, required=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "parquet", "markdown", "latex", "pytest-benchmark", "prometheus"]),
    required=True,
    help="What to write.",
)
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("export"),
    show_default=True,
    help="Folder for the files.",
)
@COLUMNS
@RESULTS
def export(runs: tuple[str, ...], form: str, folder: Path, columns: tuple[str, ...], results: Path) -> None:
    """Write RUN… for other tools: raw and derived figures, each in files of their own, under the same names everywhere.

    \b
    Example:
      gpubench export --format csv first -o first_csv/
      gpubench export --format latex --columns strategy,n_devices,samples_per_second first
    """
    from gpubench import exporting
    from gpubench.files.outputs import may_fill

    may_fill(folder)
    loaded = exporting.load(runs, results)
    for warning in loaded.warnings:
        click.echo(f"gpubench: {warning}", err=True)
    for path in exporting.write(loaded, form, folder, columns):
        click.echo(path)


def _write_page(compared: Compared, output: Path) -> None:
    from gpubench.report.compare_html import write_html
    from gpubench.report.compare_plots import write_plots

    try:
        write_html(compared.study, compared.sources, output)
        plots = write_plots(compared.study, output.with_suffix(".plots"))
    except OSError as error:
        raise UsageError(f"Cannot write {output}: {error.strerror}.") from error
    for path in [output, *plots]:
        click.echo(path, err=True)

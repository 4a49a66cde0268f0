"""The plots: what is drawn is what was measured, the same every time, and nothing is left behind in matplotlib."""

import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import matplotlib
import pytest

from gpubench.analysis.scaling import summarize
from gpubench.analysis.stats import Interval
from gpubench.report import plots
from gpubench.report.curves import curves_of
from gpubench.report.plots import Form
from tests.builders import make_case, make_launches, make_lost, make_record, make_run

CPU = summarize(make_run("cpu"))
GPU = summarize(make_run("gpu"))


def curves(axes) -> list[list[tuple[float, float]]]:
    """The drawn series; the ideal lines are dotted and thin."""
    lines = [line for line in axes.get_lines() if line.get_linewidth() > 1]
    return [list(zip(line.get_xdata(), line.get_ydata(), strict=True)) for line in lines]


def test_file_names_say_what_was_measured_and_on_what(tmp_path):
    written = plots.write_plots([*CPU, *GPU], tmp_path / "plots")
    assert sorted(path.name for path in written) == [
        "resnet20-fp32-weak-cpu-shares.png",
        "resnet20-fp32-weak-cpu-shares.svg",
        "resnet50-fp32-weak-gpu.png",
        "resnet50-fp32-weak-gpu.svg",
    ]
    assert all(path.stat().st_size > 10_000 for path in written)


def test_a_hostile_workload_cannot_choose_the_folder():
    [name] = plots.figures_of(summarize([make_record(make_case(workload="../../etc/x"))]))
    assert "/" not in name
    assert "." not in name


def test_every_measured_point_is_drawn_and_none_beside():
    throughput, _ = plots.scaling_figure(GPU).axes
    drawn = sorted(point for curve in curves(throughput) for point in curve)
    assert drawn == [pytest.approx(point) for point in sorted((s.case.n_devices, s.samples_per_second) for s in GPU)]


def test_weak_and_strong_get_figures_of_their_own():
    records = [make_record(make_case(scaling="weak")), make_record(make_case(scaling="strong"))]
    assert list(plots.figures_of(summarize(records))) == [
        "resnet20-fp32-strong-cpu-shares",
        "resnet20-fp32-weak-cpu-shares",
    ]


def test_two_batches_are_two_series_and_are_not_joined():
    records = [
        r for batch in (32, 64) for n in (1, 2) for r in make_launches(make_case("ddp", n, batch=batch), [90.0 * n])
    ]
    throughput, _ = plots.scaling_figure(summarize(records)).axes
    assert sorted(len(curve) for curve in curves(throughput)) == [2, 2]


def looks_of(lines):
    """Colour, marker and dashes of each line that is a series."""
    return [(line.get_color(), line.get_marker(), line.get_linestyle(), str(line._dash_pattern)) for line in lines]


@pytest.mark.parametrize("batches", [(16, 32), (16, 32, 64), tuple(range(1, 13))], ids=len)
def test_batches_never_share_a_mark_or_dashes_in_a_plot_nor_in_its_legend(batches):
    records = [
        record
        for batch in batches
        for strategy, n in (("single", 1), ("ddp", 1), ("ddp", 2), ("zero", 1), ("zero", 2))
        for record in make_launches(make_case(strategy, n, batch=batch), [90.0 * n * batch])
    ]
    drawn = plots.scaling_figure(summarize(records))
    n_series = 3 * len(batches)
    (legend,) = drawn.legends
    handles = legend.get_lines()[:-1]  # the last is the ideal line
    labels = [text.get_text() for text in legend.get_texts()][:-1]
    assert len(set(looks_of(handles))) == len(set(labels)) == n_series
    assert sorted(labels) == sorted(
        f"torch {name}, batch {batch}" for name in ("single", "ddp", "zero") for batch in batches
    )
    throughput, _ = drawn.axes
    assert (
        len(
            {
                (line.get_marker(), str(line._dash_pattern))
                for line in throughput.get_lines()
                if line.get_linewidth() > 1
            }
        )
        == n_series
    )


def test_a_case_without_a_number_is_named_with_its_batch_where_there_are_several():
    records = [
        *make_launches(make_case("single", 1, batch=16), [100.0]),
        make_lost(make_case("ddp", 2, batch=32), "oom", ""),
    ]
    assert "torch ddp on 2, batch 32: oom" in plots.scaling_figure(summarize(records)).get_supxlabel()


def test_ticks_are_the_counts_that_were_measured():
    for axes in plots.scaling_figure(GPU).axes:
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "4", "8"]
        assert axes.get_xscale() == "log"
    for axes in plots.scaling_figure(CPU).axes:
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2"]
        assert axes.get_xscale() == "linear"


def test_title_and_axes_of_a_cpu_run_say_so():
    drawn = plots.scaling_figure(CPU)
    assert "CPU shares (1 core each): not GPU figures" in drawn.get_suptitle()
    assert all("CPU shares" in axes.get_xlabel() for axes in drawn.axes)


def test_a_case_without_a_number_is_named_on_the_plot():
    assert "torch data_parallel on 2: skipped" in plots.scaling_figure(CPU).get_supxlabel()


def test_error_bars_are_the_intervals():
    _, efficiency = plots.scaling_figure(CPU).axes
    bars = sorted(tuple(path.vertices[:, 1]) for bar in efficiency.collections for path in bar.get_paths())
    intervals = [s.scaling_efficiency_interval for s in CPU if s.scaling_efficiency_interval and not s.is_baseline]
    assert bars == [pytest.approx(bound) for bound in sorted((each.low, each.high) for each in intervals)]


def test_the_svg_is_the_same_every_time():
    assert plots.svg(plots.scaling_figure(CPU)) == plots.svg(plots.scaling_figure(CPU))


def test_drawing_leaves_matplotlib_as_it_was():
    before = dict(matplotlib.rcParams)
    plots.svg(plots.scaling_figure(CPU))
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(
    "records",
    [
        make_launches(make_case("single", 1), [100.0]),
        make_launches(make_case("ddp", 2), [180.0] * 3),  # no baseline: no efficiency
        [*make_launches(make_case("single", 1), [100.0]), make_lost(make_case("ddp", 2), "oom", "")],
        make_launches(make_case("$a$ \\frac", framework="<&>\x00"), [100.0]),
        make_launches(make_case("_%{}<", framework="\U0001f600\u96ea" * 30, workload="$\\sum_{$"), [100.0]),
        [make_record(make_case("ddp", 64, device_kind="gpu"), rounds=1)],
    ],
    ids=["one device", "no baseline", "one failed", "odd names", "emoji", "64 devices alone"],
)
def test_little_or_odd_data_is_drawn_too(records):
    ElementTree.fromstring(plots.svg(plots.scaling_figure(summarize(records))))


def test_no_figure_is_made_of_nothing():
    assert plots.figures_of(summarize([make_lost(make_case(), "oom", "")])) == {}


def test_workloads_whose_names_make_the_same_file_name_have_figures_of_their_own():
    records = [make_record(make_case(workload=name)) for name in ("a b", "a/b")]
    figures = plots.figures_of(summarize(records))
    assert len(figures) == 2
    assert [len(cases) for cases in figures.values()] == [1, 1]


@pytest.mark.parametrize(("width", "n_legend_places"), [(3.3, 3), (7.0, 2), (10.5, 2)])
def test_a_plot_is_as_wide_as_it_was_asked_to_be_with_its_letters_as_letters(tmp_path, width, n_legend_places):
    form = plots.Form(("pdf",), width, "Our 2 GPUs & $more$")
    drawn = plots.scaling_figure(CPU, form=form)
    assert drawn.get_figwidth() == pytest.approx(width)
    assert len(drawn.axes) == n_legend_places  # in a narrow one the legend has a place below
    assert drawn.get_suptitle().replace("\n", " ").startswith("Our 2 GPUs & $more$ CPU shares")
    [path] = plots.write_plots(CPU, tmp_path, form)
    content = path.read_bytes()
    (box,) = re.findall(rb"/MediaBox \[ 0 0 ([0-9.]+) ([0-9.]+) \]", content)
    assert float(box[0]) / 72 == pytest.approx(width, rel=0.01)
    assert b"/Type0" in content  # TrueType inside; type 3 fonts are what journals refuse
    assert b"/Type3" not in content


def test_a_title_does_not_take_away_that_these_are_cpu_shares():
    assert "not GPU figures" in plots.scaling_figure(CPU, form=plots.Form(heading="GPUs")).get_suptitle()


def test_series_with_one_long_name_are_told_apart():
    records = [make_record(make_case(f"{'x' * 60}{end}")) for end in "ab"]
    assert len({curve.label for curve in curves_of(summarize(records))}) == 2


@pytest.mark.parametrize("form", [Form(("png",), 3.3), Form(("png",), 2.5, "A title & $x_1$"), Form(("png",), 7)])
def test_a_figure_for_a_paper_is_as_wide_as_asked_and_nothing_stands_outside_it(form):
    drawn = plots.scaling_figure(CPU, form=form)
    plots.image_bytes(drawn, "png")  # lays it out
    assert drawn.get_figwidth() == pytest.approx(form.width_inches)
    assert "CPU shares (1 core each): not GPU figures" in drawn.get_suptitle().replace("\n", " ")
    width, height = drawn.get_size_inches() * drawn.dpi
    for axes in drawn.axes[:2]:
        box = axes.get_tightbbox()
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width + 1
        assert box.y1 <= height
        assert axes.get_window_extent().width > 0.5 * width if form.is_stacked else 0.2 * width
    assert all(label.get_fontsize() >= 6 for axes in drawn.axes for label in axes.get_xticklabels())


def test_a_title_stands_instead_of_the_cases_own_and_never_of_what_it_was_measured_on():
    told = plots.scaling_figure(CPU, form=Form(heading="Mine")).get_suptitle()
    assert told == "Mine\nCPU shares (1 core each): not GPU figures"


def test_what_is_no_number_is_no_point_and_hides_no_other():
    nan = Interval(math.nan, math.nan)
    odd = [
        replace(s, samples_per_second_interval=nan, speedup_interval=nan) if s.case.framework == "torch" else s
        for s in CPU
    ]
    odd = [replace(s, samples_per_second=math.nan) if s.case.strategy == "in_graph" else s for s in odd]
    [members] = plots.figures_of(odd).values()
    drawn = plots.scaling_figure(members)
    ElementTree.fromstring(plots.svg(drawn))
    assert "tensorflow in_graph on 2" in drawn.get_supxlabel()
    assert plots.figures_of([replace(s, samples_per_second=math.nan) for s in CPU]) == {}


def test_many_counts_have_ticks_that_can_be_read():
    records = [make_record(make_case("ddp", n, device_kind="gpu"), rounds=1, ranks=1) for n in range(1, 25)]
    summaries = [summary for one in records for summary in summarize([one])]
    axes = plots.scaling_figure(summaries).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "4", "8", "16", "24"]

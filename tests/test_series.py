"""Raw series to a Parquet file and back."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from math import nan
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pyarrow as arrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from gpubench.files import decoding, series
from gpubench.spec.errors import GpubenchError
from gpubench.spec.record import DeviceTelemetry, RoundTelemetry, Telemetry
from tests.fuzz.parquets import lying, parquet_of


def device(id: str, values: dict[str, list[float | None]]) -> DeviceTelemetry:
    times = [10**15 + i * 10**8 + 1 for i in range(3)]  # more digits than a float holds
    return DeviceTelemetry(id=id, name="GPU", rounds=[RoundTelemetry(index=0, samples=3)], time_ns=times, series=values)


TELEMETRY = Telemetry(
    source="nvml",
    period_seconds=0.1,
    devices=[
        device("GPU-a", {"power_watts": [100.5, None, 300.0], "pcie_tx_bytes": [1e15, None, None]}),
        device("GPU-b", {"power_watts": [1.0, 2.0, 3.0]}),
    ],
)


def test_what_was_saved_comes_back_bit_for_bit(tmp_path: Path):
    kept = series.save(TELEMETRY, tmp_path, "0001_run.series/a.parquet")
    assert kept.series_file == "0001_run.series/a.parquet"
    assert [(one.time_ns, one.series) for one in kept.devices] == [([], {}), ([], {})]
    assert kept.devices[0].rounds == TELEMETRY.devices[0].rounds  # the summaries stay in the record
    assert replace(series.restore(kept, tmp_path), series_file=None) == TELEMETRY
    assert [path.name for path in tmp_path.glob("*/*")] == ["a.parquet"]


def test_a_telemetry_without_series_writes_no_file(tmp_path: Path):
    nothing = Telemetry(reason="not sampled")
    assert series.save(nothing, tmp_path, "x.parquet") == nothing
    assert series.restore(nothing, tmp_path) == nothing
    assert list(tmp_path.iterdir()) == []


def test_series_that_are_in_the_record_are_left_alone(tmp_path: Path):
    assert series.restore(replace(TELEMETRY, series_file="gone.parquet"), tmp_path).devices == TELEMETRY.devices


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        (b"", ""),
        (b"no parquet at all", ""),
        (parquet_of(x=[1.0]), "it has no device and time_ns"),
        (parquet_of(device=["GPU-a"], time_ns=["now"]), "it has no device and time_ns"),
        (parquet_of(device=["GPU-a"], time_ns=[1], power_watts=["much"]), "values that are no numbers"),
        (parquet_of(device=["GPU-a"], time_ns=[1], power_watts=[nan]), "values that are no numbers"),
        (parquet_of(device=["GPU-a"], time_ns=arrow.array([None], arrow.int64())), "values without a time"),
        (parquet_of(device=[1], time_ns=[1]), ""),
        (parquet_of(**{f"x{i}": [1.0] for i in range(200)}), "too many to be a launch"),
    ],
)
def test_a_file_that_is_gone_or_of_another_kind_is_named_with_the_reason(tmp_path: Path, content: bytes | None, why):
    kept = series.save(TELEMETRY, tmp_path, "a.parquet")
    path = tmp_path / "a.parquet"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(GpubenchError, match=rf"(?s)a\.parquet.*{why}"):
        series.restore(kept, tmp_path)


def test_a_file_that_would_fill_the_memory_is_refused_before_it_is_unpacked(tmp_path: Path):
    n = series.MOST_VALUES
    column = arrow.nulls(n, arrow.float64())
    out = parquet_of(device=arrow.nulls(n, arrow.string()), time_ns=arrow.nulls(n, arrow.int64()), power_watts=column)
    (tmp_path / "a.parquet").write_bytes(out)
    assert len(out) < 2**20
    with pytest.raises(GpubenchError, match="too many to be a launch"):
        series.restore(replace(TELEMETRY, devices=[], series_file="a.parquet"), tmp_path)


@pytest.mark.parametrize("as_dictionary", [True, False])
def test_a_long_id_in_every_row_is_never_written_out(tmp_path: Path, as_dictionary: bool):
    n, id = 1_000_000, "x" * 1_000_000  # 1 TB, in a file of a MB
    ids = arrow.DictionaryArray.from_arrays(arrow.array([0] * n, arrow.int32()), [id])
    table = arrow.table({"device": ids, "time_ns": arrow.array(range(n)), "power_watts": arrow.array([1.0] * n)})
    parquet.write_table(table, tmp_path / "a.parquet", compression="zstd", store_schema=as_dictionary)
    (read,) = series.restore(
        Telemetry(devices=[DeviceTelemetry(id=id, name="GPU")], series_file="a.parquet"), tmp_path
    ).devices
    assert len(read.time_ns) == n
    assert len(series.renamed(tmp_path / "a.parquet", lambda id: id[:8])) < 2**21


@pytest.mark.parametrize("is_told", [True, False])
def test_an_id_that_unpacks_to_hundreds_of_megabytes_is_refused_whatever_the_footer_says_of_it(tmp_path, is_told):
    content = parquet_of(device=["x" * (200 << 20)], time_ns=[1], power_watts=[1.0])
    assert len(content) < 1 << 16
    (tmp_path / "a.parquet").write_bytes(content if is_told else lying(content))
    with pytest.raises(GpubenchError, match="too many to be a launch" if is_told else "more memory"):
        series.restore(Telemetry(series_file="a.parquet"), tmp_path)


def test_a_file_that_takes_too_long_is_given_up_and_the_next_one_is_read(tmp_path, monkeypatch):
    series.save(TELEMETRY, tmp_path, "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    decoder = decoding.Decoder(series.MOST_VALUES)
    with monkeypatch.context() as patched:
        (tmp_path / "hangs.py").write_text("import sys, time\nsys.stdin.buffer.read(8)\ntime.sleep(600)")
        patched.setattr(decoding, "_PROGRAM", tmp_path / "hangs.py")
        patched.setattr(decoding, "SECONDS", 0.1)
        with pytest.raises(series.TooMuchError, match=r"it takes more memory or time"):
            decoder.table(content)
    assert decoder.table(content).num_rows == 6
    decoder.close()


def test_no_module_in_the_folder_of_a_strangers_files_is_run(tmp_path, monkeypatch):
    kept = series.save(TELEMETRY, tmp_path, "a.parquet")
    for name in ("pyarrow", "struct", "resource", "gpubench"):
        (tmp_path / f"{name}.py").write_text("open('run', 'w')")
    monkeypatch.chdir(tmp_path)
    decoder = decoding.Decoder(series.MOST_VALUES)
    assert decoder.table((tmp_path / "a.parquet").read_bytes()).num_rows == 6
    decoder.close()
    assert not (tmp_path / "run").exists()
    assert kept.series_file


def test_ids_that_are_lists_are_refused_by_both_that_read_them(tmp_path: Path):
    (tmp_path / "a.parquet").write_bytes(parquet_of(device=[["GPU-a"]], time_ns=[1]))
    for read in (
        lambda: series.renamed(tmp_path / "a.parquet", str),
        lambda: series.restore(Telemetry(series_file="a.parquet"), tmp_path),
    ):
        with pytest.raises(GpubenchError, match="it has no device and time_ns"):
            read()


def test_a_file_of_other_devices_is_not_this_launchs(tmp_path: Path):
    kept = series.save(TELEMETRY, tmp_path, "a.parquet")
    others = replace(kept, devices=[replace(one, id=f"other {one.id}") for one in kept.devices])
    with pytest.raises(GpubenchError, match="nothing of this launch's devices"):
        series.restore(others, tmp_path)


def test_other_ids_take_the_place_of_each(tmp_path: Path):
    kept = series.save(TELEMETRY, tmp_path, "a.parquet")
    (tmp_path / "a.parquet").write_bytes(series.renamed(tmp_path / "a.parquet", lambda id: f"other {id}"))
    others = replace(kept, devices=[replace(one, id=f"other {one.id}") for one in kept.devices])
    restored = series.restore(others, tmp_path)
    assert [one.series for one in restored.devices] == [one.series for one in TELEMETRY.devices]


def test_an_interrupted_write_leaves_nothing_behind(tmp_path: Path, monkeypatch):
    def interrupted(table: object, file: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(series, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        series.save(TELEMETRY, tmp_path, "a.parquet")
    assert list(tmp_path.iterdir()) == []


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=300, deadline=None)
def test_no_damage_to_a_file_is_more_than_a_message(seed: int):
    with TemporaryDirectory() as folder:
        kept = series.save(TELEMETRY, Path(folder), "a.parquet")
        content = bytearray((Path(folder) / "a.parquet").read_bytes())
        chance = Random(seed)
        for _ in range(chance.randint(1, 8)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        (Path(folder) / "a.parquet").write_bytes(content)
        with suppress(GpubenchError):
            series.restore(kept, Path(folder))


def test_a_folder_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path):
    (tmp_path / "a").write_text("in the way")
    with pytest.raises(OSError, match="exists"):
        series.save(TELEMETRY, tmp_path, "a/a.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_an_hour_of_eight_gpus_is_small(tmp_path: Path):
    n = 36_000
    times = [i * 10**8 for i in range(n)]
    values: list[float | None] = [100.0 + i % 7 for i in range(n)]
    big = Telemetry(
        devices=[
            DeviceTelemetry(id=f"GPU-{i}", name="GPU", time_ns=times, series={"power_watts": values}) for i in range(8)
        ]
    )
    series.save(big, tmp_path, "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 8 * n * 16 / 4  # a quarter of the numbers as they are

"""Raw series to a Parquet file and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpubench import series
from gpubench.spec.errors import GpubenchError
from gpubench.spec.record import DeviceTelemetry, RoundTelemetry, Telemetry


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
    kept = series.save(TELEMETRY, tmp_path / "0001_run.series.parquet")
    assert kept.series_file == "0001_run.series.parquet"
    assert [(one.time_ns, one.series) for one in kept.devices] == [([], {}), ([], {})]
    assert kept.devices[0].rounds == TELEMETRY.devices[0].rounds  # the summaries stay in the record
    assert replace(series.restore(kept, tmp_path), series_file=None) == TELEMETRY
    assert [path.name for path in tmp_path.iterdir()] == ["0001_run.series.parquet"]


def test_a_telemetry_without_series_writes_no_file(tmp_path: Path):
    nothing = Telemetry(reason="not sampled")
    assert series.save(nothing, tmp_path / "x.parquet") == nothing
    assert series.restore(nothing, tmp_path) == nothing
    assert list(tmp_path.iterdir()) == []


def test_series_that_are_in_the_record_are_left_alone(tmp_path: Path):
    assert series.restore(replace(TELEMETRY, series_file="gone.parquet"), tmp_path).devices == TELEMETRY.devices


@pytest.mark.parametrize("content", [None, b"", b"no parquet at all"], ids=["gone", "empty", "another"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None):
    kept = series.save(TELEMETRY, tmp_path / "a.parquet")
    path = tmp_path / "a.parquet"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(GpubenchError, match=r"a\.parquet"):
        series.restore(kept, tmp_path)


def test_a_folder_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path):
    with pytest.raises(GpubenchError, match="Cannot write"):
        series.save(TELEMETRY, tmp_path / "absent" / "a.parquet")
    assert list(tmp_path.iterdir()) == []


def test_an_hour_of_eight_gpus_is_small(tmp_path: Path):
    n = 36_000
    times = [i * 10**8 for i in range(n)]
    values: list[float | None] = [100.0 + i % 7 for i in range(n)]
    big = Telemetry(
        devices=[
            DeviceTelemetry(id=f"GPU-{i}", name="GPU", time_ns=times, series={"power_watts": values}) for i in range(8)
        ]
    )
    series.save(big, tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 8 * n * 16 / 4  # a quarter of the numbers as they are

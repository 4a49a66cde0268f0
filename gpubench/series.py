"""The raw series of a launch, to and from one Parquet file beside the journal; the record keeps the file's name.

One row for each device and time: `device` (its id), `time_ns` (the node's monotonic clock), and a column for each
metric, null where it was not read. Parquet, because what people look into such files with reads it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gpubench.spec.errors import GpubenchError
from gpubench.spec.record import DeviceTelemetry, Telemetry

KEYS = ("device", "time_ns")


def save(telemetry: Telemetry, path: Path) -> Telemetry:
    """Write the series of all devices to `path`, and give the telemetry without them, which names the file.

    Without any series nothing is written, and the telemetry is given back as it was. GpubenchError where the file
    cannot be written; then there is none, not half of one.
    """
    if not any(device.time_ns for device in telemetry.devices):
        return telemetry
    import pyarrow as arrow
    from pyarrow import parquet

    metrics = sorted({metric for device in telemetry.devices for metric in device.series})
    columns: dict[str, Any] = {
        "device": arrow.array([device.id for device in telemetry.devices for _ in device.time_ns]).dictionary_encode(),
        "time_ns": arrow.array([t for device in telemetry.devices for t in device.time_ns], arrow.int64()),
    }
    for metric in metrics:
        values = [v for device in telemetry.devices for v in device.series.get(metric, [None] * len(device.time_ns))]
        columns[metric] = arrow.array(values, arrow.float64())
    part = path.with_name(path.name + ".part")
    try:
        parquet.write_table(arrow.table(columns), part, compression="zstd")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise GpubenchError(f"Cannot write {path}: {error.strerror or error}.") from error
    devices = [replace(device, time_ns=[], series={}) for device in telemetry.devices]
    return replace(telemetry, devices=devices, series_file=path.name)


def restore(telemetry: Telemetry, folder: Path) -> Telemetry:
    """The telemetry with its series again, from `series_file` in `folder`.

    As it was where it names no file. GpubenchError where the file is gone or is no such file.
    """
    if telemetry.series_file is None or any(device.time_ns for device in telemetry.devices):
        return telemetry
    import pyarrow as arrow
    from pyarrow import parquet

    path = folder / telemetry.series_file
    try:
        table = parquet.read_table(path)
        by_device = {device.id: _of_device(table, device) for device in telemetry.devices}
    except (OSError, KeyError, arrow.ArrowException) as error:
        raise GpubenchError(f"Cannot read the series of a launch from {path}: {error}") from error
    return replace(telemetry, devices=[by_device[device.id] for device in telemetry.devices])


def _of_device(table: Any, device: DeviceTelemetry) -> DeviceTelemetry:
    import pyarrow.compute as compute

    rows = table.filter(compute.equal(table["device"], device.id))
    series = {
        name: rows[name].to_pylist()
        for name in rows.column_names
        if name not in KEYS and rows[name].null_count < rows.num_rows
    }
    return replace(device, time_ns=rows["time_ns"].to_pylist(), series=series)

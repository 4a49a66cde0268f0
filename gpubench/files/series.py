"""The raw series of a launch, to and from one Parquet file beside the journal; the record keeps the file's name.

One row for each device and time: `device` (its id), `time_ns` (the node's monotonic clock), and a column for each
metric, null where it was not read. Parquet, because what people look into such files with reads it. As such a file
may come from anywhere, sizes have limits here too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpubench.files.decoding import Decoder
from gpubench.files.decoding import TooMuchError as TooMuchError
from gpubench.files.series_decoder import KEYS
from gpubench.files.untrusted import inert, read_bytes
from gpubench.files.writing import own_folder
from gpubench.spec.errors import GpubenchError
from gpubench.spec.record import DeviceTelemetry, Telemetry

MOST_VALUES = 8_000_000  # in a file: eight GPUs for an hour, each with 27 metrics ten times a second
LARGEST_FILE = 64 << 20
_DECODER = Decoder(MOST_VALUES)


def save(telemetry: Telemetry, folder: Path, name: str) -> Telemetry:
    """Write the series of all devices to `name` in `folder`, and give the telemetry without them, which names the file.

    Without any series nothing is written, and the telemetry is given back as it was. OSError where the file cannot be
    written, MemoryError where the address space is limited; then there is none, not half of one, nor is there where it
    is interrupted.
    """
    if not any(device.time_ns for device in telemetry.devices):
        return telemetry
    import resource  # where series are only read, it need not exist

    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        # Where too little is left, Arrow has been seen to end the process with SIGSEGV, and the launch with it.
        raise MemoryError("the address space is limited (ulimit -v), which Arrow does not bear")
    path = folder / name
    own_folder(path.parent)
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    try:
        with part.open("xb") as file:
            _write(_table(telemetry), file)
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    devices = [replace(device, time_ns=[], series={}) for device in telemetry.devices]
    return replace(telemetry, devices=devices, series_file=name)


def restore(telemetry: Telemetry, folder: Path) -> Telemetry:
    """The telemetry with its series again, from `series_file` in `folder`.

    As it was where it names no file. GpubenchError where the file is gone, is no such file, or is of other devices.
    """
    if telemetry.series_file is None or any(device.time_ns for device in telemetry.devices):
        return telemetry
    path = folder / telemetry.series_file
    with _explained(path):
        table = _DECODER.table(read_bytes(path, LARGEST_FILE))
        devices = [_of_device(table, device) for device in telemetry.devices]
        if not any(device.time_ns for device in devices):
            raise ValueError("it has nothing of this launch's devices")
    return replace(telemetry, devices=devices)


def renamed(path: Path, other: Callable[[str], str]) -> bytes:
    """Such a file's content with each device's id replaced. GpubenchError where it is no such file."""
    import pyarrow as arrow

    with _explained(path):
        table = _DECODER.table(read_bytes(path, LARGEST_FILE))
        ids = table["device"].combine_chunks()
        ids = arrow.DictionaryArray.from_arrays(ids.indices, arrow.array(map(other, ids.dictionary.to_pylist())))
        out = arrow.BufferOutputStream()
        _write(table.set_column(table.column_names.index("device"), "device", ids), out)
    content: bytes = out.getvalue().to_pybytes()
    return content


def _table(telemetry: Telemetry) -> Any:
    import pyarrow as arrow

    devices = telemetry.devices
    columns: dict[str, Any] = {
        "device": arrow.array([device.id for device in devices for _ in device.time_ns]).dictionary_encode(),
        "time_ns": arrow.array([time_ns for device in devices for time_ns in device.time_ns], arrow.int64()),
    }
    for metric in sorted({metric for device in devices for metric in device.series}):
        values = [v for device in devices for v in device.series.get(metric, [None] * len(device.time_ns))]
        columns[metric] = arrow.array(values, arrow.float64())
    return arrow.table(columns)


def _write(table: Any, file: Any) -> None:
    from pyarrow import parquet

    parquet.write_table(table, file, compression="zstd")


def _of_device(table: Any, device: DeviceTelemetry) -> DeviceTelemetry:
    import pyarrow.compute as compute

    ids = table["device"].combine_chunks()
    rows = table.filter(compute.equal(ids.indices, ids.dictionary.index(device.id).as_py()))
    metrics = [name for name in rows.column_names if name not in KEYS and rows[name].null_count < rows.num_rows]
    if any(compute.any(compute.is_nan(rows[name])).as_py() for name in metrics):
        raise ValueError("it has values that are no numbers")
    return replace(
        device, time_ns=rows["time_ns"].to_pylist(), series={name: rows[name].to_pylist() for name in metrics}
    )


class _explained:
    """Names the file where reading it fails."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        import pyarrow as arrow

        damage = (OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError, arrow.ArrowException)
        if isinstance(error, (*damage, GpubenchError)):
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error).split("\n")[0][:200]
            why = why.rstrip(".") or type(error).__name__
            told = f"Cannot read the series in {inert(str(self._path))}: {inert(why)}."
            raise (TooMuchError if isinstance(error, TooMuchError) else GpubenchError)(told) from error

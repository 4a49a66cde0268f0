"""Parquet files of series that unpack to much more than they are, or say that they do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as arrow
from pyarrow import parquet

from gpubench.files import series

ROWS = series.MOST_VALUES // 3  # as many as a file of three columns may have


def parquet_of(options: Mapping[str, Any] | None = None, **columns: object) -> bytes:
    out = arrow.BufferOutputStream()
    parquet.write_table(arrow.table(columns), out, **{"compression": "zstd", **(options or {})})
    content: bytes = out.getvalue().to_pybytes()
    return content


def lying(content: bytes) -> bytes:
    """The file with sizes of 100 bytes in its footer, in as many bytes as the true ones; a size may be missed."""
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8]
    about = parquet.read_metadata(arrow.BufferReader(content)).row_group(0)
    for size in {about.total_byte_size, *(about.column(i).total_uncompressed_size for i in range(about.num_columns))}:
        if size > 1 << 16:
            footer = footer.replace(varint(2 * size), varint(200, len(varint(2 * size))))
    lies = content[: -8 - length] + footer + content[-8:]
    assert parquet.read_metadata(arrow.BufferReader(lies)).row_group(0).total_byte_size < about.total_byte_size
    return lies


def varint(number: int, length: int = 1) -> bytes:
    """As Thrift writes it: seven bits a byte, padded with bytes that add nothing."""
    digits = [number >> 7 * place & 127 for place in range(max(length, -(-number.bit_length() // 7)))]
    return bytes([*(digit | 128 for digit in digits[:-1]), digits[-1]])


def _ids(rows: int, id: str = "GPU-a") -> Any:
    return arrow.DictionaryArray.from_arrays(arrow.array(np.zeros(rows, np.int32)), [id])


def _zeros(**options: Any) -> bytes:
    return parquet_of(options, device=_ids(ROWS), time_ns=np.zeros(ROWS, np.int64), power_watts=np.zeros(ROWS))


def _unique() -> bytes:
    rows = 2_000_000
    return parquet_of(device=arrow.array([f"{i:08}" for i in range(rows)]), time_ns=np.arange(rows))


SERIES: dict[str, Callable[[], bytes]] = {
    "as many zeros as may be": _zeros,
    "as many zeros as may be, each written": lambda: _zeros(use_dictionary=False, data_page_size=1 << 30),
    "an id of 200 MiB": lambda: parquet_of(device=["x" * (200 << 20)], time_ns=[1], power_watts=[1.0]),
    "an id of 200 MiB that is not told": lambda: lying(
        parquet_of(device=["x" * (200 << 20)], time_ns=[1], power_watts=[1.0])
    ),
    "another id in each row, not told": lambda: lying(_unique()),
    "a row group for each row": lambda: parquet_of(
        {"row_group_size": 1}, device=_ids(20_000), time_ns=np.arange(20_000), power_watts=np.zeros(20_000)
    ),
    "thousands of columns": lambda: parquet_of(**{f"c{i}": [1.0] for i in range(10_000)}),
    "nested ids": lambda: parquet_of(device=[[["GPU-a"]]], time_ns=[1]),
    "metadata of megabytes": lambda: parquet_of(device=arrow.array(["GPU-a"]), time_ns=[1], **{"x" * (4 << 20): [1.0]}),
    "odd encodings": lambda: parquet_of(
        {"use_dictionary": False, "column_encoding": {"device": "DELTA_BYTE_ARRAY", "time_ns": "DELTA_BINARY_PACKED"}},
        device=["y" * 1000 + str(i % 10) for i in range(50_000)],
        time_ns=np.arange(50_000),
    ),
}

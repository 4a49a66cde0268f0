"""A process that decodes Parquet files of series for `series`, with a limit on its memory.

What a Parquet file says of its sizes may be false in the footer, in each page's header and in each dictionary, and
Arrow reserves what it is told before it looks. A limit of the kernel's holds whatever is in the file; its time has a
limit in the process that waits. It is run as a script, in which nothing of gpubench is imported.

On standard input comes the length of a file in 8 bytes and the file; on standard output goes the length of the answer,
and the answer: `+` and the table as an Arrow stream, or `-` and why there is none.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import Any

KEYS = ("device", "time_ns")
MOST_COLUMNS = 100
LARGEST_FOOTER = 1 << 20
MEMORY = 400 << 20  # bytes, above what Python and Arrow take


def main() -> None:
    os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # the others reserve more than they use
    import pyarrow as arrow
    import pyarrow.parquet

    most_values = int(sys.argv[1])
    arrow.set_cpu_count(1)
    arrow.set_io_thread_count(1)
    _limit_memory()
    while head := sys.stdin.buffer.read(8):
        content = sys.stdin.buffer.read(int.from_bytes(head, "little"))
        try:
            answer = [b"+", _encoded(_table(content, most_values))]
        except MemoryError:
            answer = [b"-", b"it takes more memory than the series of any launch"]
        except (OSError, ValueError, KeyError, TypeError, OverflowError, arrow.ArrowException) as error:
            why = str(error).split("\n")[0][:200].rstrip(".")
            answer = [b"-", (why or type(error).__name__).encode(errors="replace")]
        del content
        sys.stdout.buffer.write(sum(map(len, answer)).to_bytes(8, "little"))
        for part in answer:
            sys.stdout.buffer.write(part)
        sys.stdout.buffer.flush()
        del answer, part


def _limit_memory() -> None:
    """From here on, what is mapped may grow by `MEMORY`. Where the system cannot say what is, there is no limit."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        mapped = int(statm.read_text().split()[0]) * resource.getpagesize()
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        limit = mapped + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit if most < 0 else min(limit, most), most))


def _table(content: bytes, most_values: int) -> Any:
    """The table of a file. ValueError where it has not the columns of a series, or too much in them.

    Ids stay a dictionary and places in it: written out for each row, a few bytes of them could fill any memory.
    """
    import pyarrow as arrow
    from pyarrow import parquet

    if int.from_bytes(content[-8:-4], "little") > LARGEST_FOOTER:
        raise ValueError("it has a footer larger than any launch's")
    limits = {"thrift_string_size_limit": LARGEST_FOOTER, "thrift_container_size_limit": 100_000}
    opened = parquet.ParquetFile(arrow.BufferReader(content), **limits)
    about = opened.metadata
    unpacked = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
    values = about.num_rows * about.num_columns
    if about.num_columns > MOST_COLUMNS or values > most_values or unpacked > 8 * most_values:
        raise ValueError(f"it has {about.num_rows:,} rows of {about.num_columns} columns: too many to be a launch")
    kinds = dict(zip(opened.schema_arrow.names, opened.schema_arrow.types, strict=True))
    words = (arrow.dictionary(arrow.int32(), arrow.string()), arrow.string())
    if kinds.get("device") not in words or kinds.get("time_ns") != arrow.int64():
        raise ValueError(f"it has no {' and '.join(KEYS)}")
    if any(kind != arrow.float64() for name, kind in kinds.items() if name not in KEYS):
        raise ValueError("it has values that are no numbers")
    opened = parquet.ParquetFile(arrow.BufferReader(content), read_dictionary=["device"], **limits)
    table = opened.read(use_threads=False)
    if table["time_ns"].null_count:
        raise ValueError("it has values without a time")
    return table.combine_chunks()


def _encoded(table: Any) -> Any:
    import pyarrow as arrow

    out = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    return memoryview(out.getvalue())


if __name__ == "__main__":
    main()

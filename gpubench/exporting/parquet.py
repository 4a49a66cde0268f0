"""Parquet of a table, typed: whole numbers, floats, truth values and text, with null for what is not measured."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet

from gpubench.exporting.tables import Table, Value


def parquet(table: Table) -> bytes:
    columns = {name: [row[name] for row in table.rows] for name in table.columns}
    arrays = {name: pa.array(values, type=_type(values)) for name, values in columns.items()}
    out = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(arrays), out)
    return out.getvalue()


def _type(values: list[Value]) -> pa.DataType:
    """A column that is empty throughout holds numbers that were not measured."""
    known = {type(value) for value in values if value is not None}
    if known == {bool}:
        return pa.bool_()
    if known == {int}:
        return pa.int64()
    return pa.float64() if known <= {int, float} else pa.string()

"""Files with our filters, and with those filters' bits cleared: where a needle vanishes, the filters were used."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom
from support.writers import peers


class Haystack:
    """A file with our filters, the same with cleared filters, and needles that stand in one row group each.

    Parameters
    ----------
    folder, name : of the files.
    columns : leaves of `peers.VALUES`' columns, which get filters.
    table : what is written, if it is not those columns as they are.
    fpp : of the filters.
    prepare : what else is done to the file before it gets filters.
    options : of `pyarrow.parquet.write_table`.

    Attributes
    ----------
    plain, path, cleared : the file without filters, with them, and with their bits cleared.
    file : what was put in.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        columns: list[str],
        *,
        table: pa.Table | None = None,
        fpp: float = 0.01,
        prepare: Callable[[Path], object] = lambda path: None,
        **options: Any,
    ):
        self.plain = folder / f"{name}-plain.parquet"
        tops = list(dict.fromkeys(column.split(".")[0] for column in columns))
        given = peers.arrow_table(tops) if table is None else table
        pq.write_table(given, self.plain, row_group_size=peers.DISTINCT, use_dictionary=False, **options)
        prepare(self.plain)
        self.path = folder / f"{name}.parquet"
        parquet_bloom.embed(self.plain, dict.fromkeys(columns, fpp), output=self.path)
        self.cleared = peers.with_zeroed_filters(self.path, folder / f"{name}-cleared.parquet")
        rows = {top: peers.column_rows(top) for top in tops}
        self.file = peers.PeerFile("pyarrow", name, self.path, rows, "parquet_bloom.embed")

    def needle(self, column: str) -> tuple[Any, int, pa.DataType]:
        """A value that every reader takes (finite, no zero, no extreme), and how many rows hold it."""
        values = [value for group in range(peers.GROUPS) for value in self.file.values(group, column)]
        common = peers.VALUES[column.split(".")[0]].always if "." not in column else [0, 7, "", -(2**31), 2**31 - 1]
        arrow = self.file.array(0, column).type
        value = next(
            value
            for value in values
            if value is not None
            and value not in [item for item in common if item is not None]
            and not (isinstance(value, float) and (math.isnan(value) or math.isinf(value) or value == 0))
            and not (pa.types.is_timestamp(arrow) and isinstance(value, int) and value % 1000)
            and not (isinstance(value, str) and (len(value) > 60 or value == "\U0010fffd"))
        )
        return value, values.count(value), arrow

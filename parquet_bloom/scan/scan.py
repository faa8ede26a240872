"""A scan: a predicate and columns over the files of a dataset, planned once and read in any form."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..errors import ParquetBloomError
from ..predicate.tree import Node
from .locate.row_ranges import find_row_ranges
from .model.row_selection import RowRangesByGroup
from .options import ScanOptions
from .read.reader import BATCH_ROWS, RowReader
from .report import PruneReport
from .source import ScanSource
from .table_columns import make_names_error, select_columns, select_table_columns

if TYPE_CHECKING:
    import polars as pl


class Scan:
    """The rows of a dataset that match a predicate. Made by `Dataset.scan`; nothing is read before a method needs it.

    The files are listed and planned at the first call of any method, and that plan is used by all: a new scan sees
    files that were added since. A scan is pickled with its plan, if it has one, and with `progress` and `on_error`.
    """

    def __init__(
        self,
        source: ScanSource,
        node: Node | None,
        columns: Sequence[str] | None,
        options: ScanOptions,
        schema: pa.Schema | None = None,
    ):
        self._source = source
        self._node = node
        if isinstance(columns, str):
            raise make_names_error(columns)
        self._columns = columns
        self._options = options
        self._schema = schema
        self._report: PruneReport | None = None

    def __getstate__(self) -> dict[str, Any]:
        # A plan that was made goes along; what reads by it is made anew.
        return {name: value for name, value in self.__dict__.items() if name != "_reader"}

    def plan(self) -> PruneReport:
        """Return which files and row groups are read, and why the others are not; see `prune`."""
        if self._report is None:
            self._report = self._source.plan(self._node, self._options, self._schema)
        return self._report

    @cached_property
    def _reader(self) -> RowReader:
        plan = self.plan()
        columns, schema, table = self._columns, self._schema, plan.table
        case_sensitive = not self._options.ignore_case
        if table is not None:
            columns, schema = select_table_columns(schema or table.schema, columns, case_sensitive)
        elif schema is not None:
            columns, schema = select_columns(schema, columns, case_sensitive)
        return RowReader(plan, columns, schema=schema, cache=self._source.cache)

    def explain(self, max_files: int = 20, max_lines: int = 20) -> str:
        """Explain what is read and why; see `PruneReport.explain`."""
        return self.plan().explain(max_files, max_lines)

    def to_html(self, output: Any = None, **options: Any) -> str:
        """Render the plan as a page; see `PruneReport.to_html`."""
        return self.plan().to_html(output, **options)

    def row_ranges(self) -> dict[str, RowRangesByGroup]:
        """Find the rows that can match, without reading values.

        Returns
        -------
        {path: {row group: [(start, stop), ...]}} of the files and row groups that the plan selects, with `stop`
        excluded. Rows are counted from the first row of their row group. A row group is listed whole unless a valid
        page index or zones rule out rows; it may have no ranges at all. Row groups of ORC files are always listed
        whole.
        """
        on_error, progress = self._options.on_error, self._options.progress
        return find_row_ranges(self.plan(), cache=self._source.cache, on_error=on_error, progress=progress)

    def count_rows(self) -> int:
        """Count the matching rows; only the predicate's columns are read, and none without a predicate."""
        asked = self._options
        return self._reader.count_rows(threads=asked.threads, progress=asked.progress, on_error=asked.on_error)

    def to_arrow(self, *, max_bytes: int | None = None) -> pa.Table:
        """Read the rows as a table.

        Parameters
        ----------
        max_bytes : bound on the bytes that are decoded at a time, besides the table; see `to_batches`.

        Returns
        -------
        pyarrow.Table
            Columns as `pyarrow.parquet.read_table` and `pyarrow.orc.read_table` give them, rows in file order. Files
            whose columns differ are combined as by `pyarrow.concat_tables(promote_options="permissive")`; a column that
            is a dictionary in some files only is not one in the result. Partition columns (int64, date32 or string)
            come after the files' own, or replace a file's column of the same name.
        """
        if self._options.on_error is None:
            return self._reader.read_table(max_bytes=max_bytes, threads=self._options.threads)
        schema, batches = self._read_batches(BATCH_ROWS, True, max_bytes)
        return pa.Table.from_batches(batches, schema)

    def to_batches(
        self, batch_size: int = BATCH_ROWS, *, in_order: bool = True, max_bytes: int | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """Read the rows in record batches of at most `batch_size` rows, none of them empty.

        Row groups of all files are read by several threads, ahead of the batches that are taken. Closing the generator
        stops the reading, and ends the threads.

        Parameters
        ----------
        batch_size : maximum rows of a batch.
        in_order : give the rows in the order of files and row groups; False to give batches as they come, which is
            faster where some take much longer than others.
        max_bytes : bound on the decoded bytes that are in memory at a time, including those of the batch taken last;
            None for 96 MiB. A Parquet row group that would exceed it is decoded a window of rows at a time, one of ORC
            a stripe at a time.
        """
        return self._read_batches(batch_size, in_order, max_bytes)[1]

    def to_reader(
        self, batch_size: int = BATCH_ROWS, *, in_order: bool = True, max_bytes: int | None = None
    ) -> pa.RecordBatchReader:
        """Read the rows as a stream of batches, which every Arrow library can consume; errors are raised as it is.

        For the parameters see `to_batches`. A stream that nothing is taken from ends its threads by itself.
        """
        schema, batches = self._read_batches(batch_size, in_order, max_bytes)
        return pa.RecordBatchReader.from_batches(schema, batches)

    def to_pandas(self, **options: Any) -> Any:
        """Read the rows as a pandas DataFrame; `options` are those of `pyarrow.Table.to_pandas`."""
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> pl.DataFrame:
        """Read the rows as a polars DataFrame."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def _read_batches(
        self, batch_size: int, in_order: bool, max_bytes: int | None
    ) -> tuple[pa.Schema, Generator[pa.RecordBatch, None, None]]:
        for name, number in (("batch_size", batch_size), ("max_bytes", max_bytes)):
            if number is not None and number < 1:
                raise ParquetBloomError(f"{name} must be at least 1, got {number}")
        return self._reader.read_batches(
            batch_size,
            in_order=in_order,
            max_bytes=max_bytes,
            threads=self._options.threads,
            progress=self._options.progress,
            on_error=self._options.on_error,
        )

    def __repr__(self) -> str:
        where = "all rows" if self._node is None else str(self._node)
        return f"<Scan of {self._source.table or self._source.paths!r}: {where}>"

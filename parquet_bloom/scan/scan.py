"""A scan: a predicate and columns over the files of a dataset, planned once and read in any form."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Unpack

import pyarrow as pa

from ..errors import ParquetBloomError
from ..file.metadata_cache import SHARED_CACHE, MetadataCache
from ..predicate.map_lookup import find_evidence_columns
from ..predicate.tree import Node
from ..storage import Entry
from ..tables.table_footers import as_table_footers
from ..util.arrow_export import ArrowExport
from ..util.lazy import late_module
from .compatibility import DatasetCompatibility
from .decode.open_data import open_file
from .lookup.table_rows import TableRows
from .model.column_defaults import ColumnDefaults
from .model.data_file import DataFile
from .model.folder_partitions import FileResidualEvaluator
from .model.row_selection import RowGroupSelections, RowRangesByGroup, RowSelection
from .model.scan_plan import FilePlan, FileScan, RowGroupPlan, ScanPlan
from .model.split_plan import split_plan
from .named_columns import make_names_error, select_columns, select_table_columns
from .plan_report import PageOptions, PruneReport
from .row_reader import BATCH_ROWS, RowReader
from .scan_options import LIMITS, Limits, ScanOptions
from .scan_source import ScanSource

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
else:
    pl = late_module("polars")


@dataclass(frozen=True)
class PageIndexEvaluator:
    """Narrows the rows of selected row groups to the pages that can match; a file that has changed is selected whole.

    Attributes
    ----------
    open_file : opens the file of a path.
    predicates : the predicate of each open file.
    select_live : takes the rows that a table has deleted out of a selection; None for files of no table.
    """

    open_file: Callable[[str], DataFile]
    predicates: FileResidualEvaluator
    select_live: Callable[[DataFile, FilePlan, RowGroupSelections], RowGroupSelections] | None = None

    def evaluate(self, files: Iterator[FileScan], plan: ScanPlan) -> Generator[FileScan, None, None]:
        """See `Evaluator.evaluate`; a file that can no longer be read has an error in place of its plan."""
        for file in files:
            if file.plan is not None and file.plan.selected:
                try:
                    file.plan = self._narrow(file, file.plan)
                except ParquetBloomError as error:
                    file.plan, file.error = None, error
            yield file

    def _narrow(self, file: FileScan, plan: FilePlan) -> FilePlan:
        with self.open_file(plan.path) as opened:
            source, predicate = opened.source, self.predicates.predicate_for(opened)
            requests, bytes_read = source.requests, source.bytes_read
            selections = plan.selections_in(opened)
            rows: dict[int, RowSelection] = {row_group: () for row_group, _ in selections}
            live = selections if self.select_live is None else self.select_live(opened, plan, selections)
            for row_group, selection in live:
                rows[row_group] = tuple(opened.select_rows(row_group, predicate, selection))
            file.requests += source.requests - requests
            file.bytes_read += source.bytes_read - bytes_read
            if plan.identity is None or source.identity == plan.identity:
                narrowed = [replace(one, rows=rows[one.row_group]) if one.read else one for one in plan.row_groups]
            else:
                narrowed = [
                    RowGroupPlan(row_group, True, num_rows=opened.num_rows_of(row_group), rows=selection)
                    for row_group, selection in rows.items()
                ]
            return replace(plan, row_groups=tuple(narrowed), identity=source.identity)


def find_row_ranges(
    report: ScanPlan,
    *,
    cache: MetadataCache | None = SHARED_CACHE,
    on_error: Callable[[ParquetBloomError], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    limits: Limits = LIMITS,
) -> dict[str, RowRangesByGroup]:
    """Find the rows that can match in the row groups that a report of `prune` has selected; see `row_ranges`.

    The cost of reading page indexes is added to the report's requests and bytes.

    Parameters
    ----------
    cache : of footers.
    on_error : called with the error of a file that can no longer be read, which is then left out; without it, the
        error is raised.
    progress : called after each file with (done, in all).
    limits : which column chunks are large enough for their page indexes to be read.
    """
    request = report.asked
    assert request is not None, "the report is not prune's"
    table, trust, select_live = report.table, None, None
    if table is not None:
        rows = TableRows(table, request.node, request.timezone, None, report.partitions)
        select_live = rows.select_live
        cache = as_table_footers(cache, table.columns)
        trust = DatasetCompatibility.of(
            table.schema, [] if request.node is None else find_evidence_columns(request.node)
        )
    evaluator = PageIndexEvaluator(
        lambda path: open_file(path, report.filesystem, cache, limits=limits),
        FileResidualEvaluator(
            request,
            report.partitions,
            trust,
            defaults=ColumnDefaults(table, request.timezone),
            strict=False,
        ),
        select_live,
    )
    ranges: dict[str, RowRangesByGroup] = {}
    selected = [FileScan(Entry(plan.path), plan=plan) for plan in report.files if plan.selected]
    for done, file in enumerate(evaluator.evaluate(iter(selected), report)):
        report.requests += file.requests
        report.bytes_read += file.bytes_read
        if file.plan is not None:
            ranges[file.entry.path] = {one.row_group: [*(one.rows or ())] for one in file.plan.read_groups}
        elif file.error is not None:
            if on_error is None:
                raise file.error
            on_error(file.error)
        if progress:
            progress(done + 1, len(selected))
    return ranges


class Scan(ArrowExport):
    """The rows of a dataset that match a predicate. Made by `Dataset.scan`; nothing is read before a method needs it.

    The files are listed and planned at the first call of any method, and that plan is used by all: a new scan sees
    files that were added since. A scan is pickled with its plan, if it has one, and with `progress` and `on_error`.

    Whatever takes Arrow's PyCapsule interface takes a scan as a table, in batches as they are read:
    `pyarrow.table(scan)`, `polars.DataFrame(scan)`, `duckdb.sql("FROM scan")` by the variable's name.

    Examples
    --------
    >>> scan = parquet_bloom.dataset("lake").scan("id = 1401181143")
    >>> scan.plan().selected
    {'lake/day=2026-01-30/a.parquet': [0]}
    >>> scan.count_rows()
    1
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

    def __getstate__(self) -> dict[str, object]:
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
            columns, schema = select_table_columns(schema or self._source.show(table.schema), columns, case_sensitive)
        elif schema is not None:
            columns, schema = select_columns(schema, columns, case_sensitive)
        show, cache = self._source.show, self._source.cache
        return RowReader(plan, columns, schema=schema, cache=cache, options=self._options, show=show)

    def explain(self, max_files: int = 20, max_lines: int = 20) -> str:
        """Explain what is read and why; see `PruneReport.explain`."""
        return self.plan().explain(max_files, max_lines)

    def to_html(self, output: str | os.PathLike[str] | None = None, **options: Unpack[PageOptions]) -> str:
        """Render the plan as a page; see `PruneReport.to_html`."""
        return self.plan().to_html(output, **options)

    def split(self, num_parts: int) -> list[Scan]:
        """Split the scan, as it is planned now, into at most so many scans, which other processes may read.

        Each is pickled with the plan of its own files alone, and reads local files in one thread. They have about as
        many bytes each, and their rows in order are those of this scan; a file is never split. None are returned if no
        file is read.
        """
        source, parts = self._source.without_files(), []
        for plan, threads in split_plan(self.plan(), num_parts):
            part = Scan(source, self._node, self._columns, replace(self._options, threads=threads), self._schema)
            part._report = plan
            parts.append(part)
        return parts

    def row_ranges(self) -> dict[str, RowRangesByGroup]:
        """Find the rows that can match, without reading values.

        Returns
        -------
        {path: {row group: [(start, stop), ...]}} of the files and row groups that the plan selects, with `stop`
        excluded. Rows are counted from the first row of their row group. A row group is listed whole unless a valid
        page index or zones rule out rows; it may have no ranges at all. Row groups of ORC files are always listed
        whole.
        """
        options, cache = self._options, self._source.cache
        return find_row_ranges(
            self.plan(), cache=cache, on_error=options.on_error, progress=options.progress, limits=options.limits
        )

    def count_rows(self) -> int:
        """Count the matching rows; only the predicate's columns are read, and none without a predicate."""
        return self._reader.count_rows()

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
            return self._reader.read_table(max_bytes=max_bytes)
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

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self._reader.schema.__arrow_c_schema__()

    def to_pandas(self, **options: object) -> pd.DataFrame:
        """Read the rows as a pandas DataFrame; `options` are those of `pyarrow.Table.to_pandas`."""
        return self.to_arrow().to_pandas(**options)

    def to_polars(self) -> pl.DataFrame:
        """Read the rows as a polars DataFrame."""
        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def _read_batches(
        self, batch_size: int, in_order: bool, max_bytes: int | None
    ) -> tuple[pa.Schema, Generator[pa.RecordBatch, None, None]]:
        for name, number in (("batch_size", batch_size), ("max_bytes", max_bytes)):
            if number is not None and number < 1:
                raise ParquetBloomError(f"{name} must be at least 1, got {number}")
        return self._reader.read_batches(batch_size, in_order=in_order, max_bytes=max_bytes)

    def __repr__(self) -> str:
        where = "all rows" if self._node is None else str(self._node)
        return f"<Scan of {self._source.table or self._source.paths!r}: {where}>"

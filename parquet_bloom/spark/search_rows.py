"""The rows of keys and predicates, searched for by Spark's executors: their positions come back to the driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from ..change.find_rows import FoundRows, RowSearch, collect_rows, parse_expression
from ..errors import ParquetBloomError, PredicateError, UnknownColumnError
from ..redaction import shown_redacted
from ..scan.lookup.key_chunks import KeyCounts
from ..scan.lookup.locate_keys import Locator
from ..scan.model.scan_plan import SourceListing
from ..scan.scan_options import ScanOptions
from ..scan.scan_source import ScanSource, fix_row_schema
from ..scan.sent_source import Files, SentSource
from ..storage.paths import as_utf8
from ..tables.table_part import TablePart
from ..util.arrow_values import to_numpy
from .jobs.file_tasks import TaskLimits, find_sizes, pack
from .jobs.run_files import run
from .locate_rows import SENT_KEYS, find_key_type, locate, select_keys

_UserError = PredicateError | UnknownColumnError


class ExecutorSearch:
    """A search for rows in files, which executors read.

    Parameters
    ----------
    spark : the session, classic or Connect.
    keys, on : as of `RowSearch`, or keys as a DataFrame.
    where, dialect, timezone : as for `parquet_bloom.delete`.

    Raises
    ------
    ParquetBloomError
        As by `RowSearch.make`.
    """

    def __init__(
        self,
        spark: SparkSession,
        keys: object,
        on: str | Sequence[str] | None,
        where: object,
        dialect: str | None,
        timezone: str,
    ):
        self._spark = spark
        self._frame = keys if isinstance(keys, DataFrame) else None
        self.search = RowSearch.make(keys, on, where, dialect, ScanOptions(timezone, threads=1))
        self._counts: KeyCounts | None = None  # of the DataFrame, which is read once
        self._are_many = False

    def find(self, source: ScanSource) -> FoundRows:
        """Search the files of a source; a search that has to be made again has the same keys.

        Raises
        ------
        PredicateError, UnknownColumnError
            As by `RowSearch.find`; also if keys of a DataFrame have another type than their column.
        ParquetBloomError
            A file cannot be searched, or the Spark job failed.
        """
        source, schema = fix_row_schema(source)
        if self._frame is not None and self._counts is None:
            self._read_frame(self._frame, source, schema)
        if not self._are_many:
            found = self._run(self.search, source, schema, source.list_files())
        else:
            found = FoundRows(self._join(source))
            if self.search.node is not None and found.rows:
                only = RowSearch(node=self.search.node, options=self.search.options)
                matching = self._run(only, source, schema, source.list_files(), {*found.rows}).rows
                both = {path: np.intersect1d(rows, matching.get(path, [])) for path, rows in found.rows.items()}
                found.rows = {path: rows for path, rows in both.items() if len(rows)}
        found.counts = self._counts or found.counts
        return found

    def _read_frame(self, frame: DataFrame, source: ScanSource, schema: pa.Schema) -> None:
        """Count the keys of a DataFrame, and collect them unless they are many."""
        on = self.search.on
        assert on is not None
        if parse_expression(on, schema) is None:
            of_key = find_key_type(Locator(source, schema, None, on, ScanOptions()).schema.field("key").type)
        else:
            of_key = StringType()
        selected = select_keys(frame, on, of_key)
        number, names = "number", selected.columns
        groups = selected.groupBy(*[F.col(f"`{name}`") for name in names]).agg(F.count(F.lit(1)).alias(number))
        collected = groups.limit(SENT_KEYS + 1).toArrow()
        if collected.num_rows > SENT_KEYS:
            if not isinstance(on, str) or parse_expression(on, schema) is None:
                self._are_many = True
            else:
                problem = (
                    f"there are more than {SENT_KEYS:,} keys, which can be compared with columns alone, not with {on}"
                )
                raise ParquetBloomError(problem)
            kept = selected.dropna().count()
            given = selected.count()
            self._counts = KeyCounts(given, given - kept)
            return
        keys = collected.select(names)
        numbers = to_numpy(collected[number].combine_chunks())
        is_null = np.zeros(len(numbers), np.bool_)
        for column in keys.columns:
            is_null |= to_numpy(column.combine_chunks().is_null())
        self._counts = KeyCounts(int(numbers.sum()), int(numbers[is_null].sum()))
        kept_keys = keys.filter(pa.array(~is_null)).rename_columns([on] if isinstance(on, str) else list(on))
        self.search = replace(self.search, keys=kept_keys)

    def _join(self, source: ScanSource) -> dict[str, np.ndarray]:
        """Return the rows of keys that are too many to be sent, which Spark joins with those of the files."""
        assert self._frame is not None
        assert self.search.on is not None
        paths = source.paths if source.table is None else source.table
        options = source.storage_options
        located = locate(self._spark, paths, self.search.on, self._frame, storage_options=options, max_keys=0)
        table = located.select("path", "row").toArrow()
        return collect_rows((batch.column("path"), batch.column("row")) for batch in table.to_batches())

    def _run(
        self,
        search: RowSearch,
        source: ScanSource,
        schema: pa.Schema,
        listing: SourceListing,
        chosen: set[str] | None = None,
    ) -> FoundRows:
        """Search the files, or chosen ones of them, in one job."""
        table = listing.table
        paths = [entry.path for entry in listing.entries]
        sizes = find_sizes(listing.entries) if table is None else [file.size for file in table.files]
        wanted = [number for number, path in enumerate(paths) if chosen is None or as_utf8(path) in chosen]
        packed = pack(wanted, [sizes[number] for number in wanted], TaskLimits.of(self._spark))
        parts: dict[str, Files] = {}
        for numbers in packed:  # a part goes by the path of its first file
            files = [paths[number] for number in numbers]
            parts[files[0]] = files if table is None else TablePart.of(table, numbers)
        sent = SentSource.of(source, listing)
        task = _SearchPart(search, schema, sent, parts)
        sums = [sum(sizes[number] for number in numbers) for numbers in packed]
        found = FoundRows({})
        for number, outcome in enumerate(run(self._spark, "search", list(parts), task, sent.storage_options, sums)):
            if isinstance(outcome.result, ParquetBloomError):
                raise outcome.result
            if outcome.result is None:
                raise ParquetBloomError(outcome.error or "the search was lost")
            if number:
                found.add(outcome.result)
            else:
                found = outcome.result
        return found


@shown_redacted
@dataclass(frozen=True)
class _SearchPart:
    """Task that searches some of the files.

    Attributes
    ----------
    schema : of all files.
    parts : {path of the first file: the files of each part}.
    """

    search: RowSearch = field(repr=False)
    schema: pa.Schema
    source: SentSource
    parts: Mapping[str, Files]

    def __call__(self, first: str) -> FoundRows | _UserError:
        try:
            return self.search.find(self.source.open(self.parts[first]), schema=self.schema)
        except (PredicateError, UnknownColumnError) as error:  # what a caller gave
            return error

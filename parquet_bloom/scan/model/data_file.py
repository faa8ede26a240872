"""The interface of an open data file, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import pyarrow as pa

from ...core.bloom.variants import FINAL, Variant
from ...errors import NotParquetError
from ...file.bloom_file import BloomFile
from ...file.column_statistics import ColumnCompatibility
from ...file.file_columns import Named
from ...file.metadata_cache import MetadataCache
from ...hashing.column_type import ColumnType
from ...metadata.page_match import Targets
from ...predicate.pruning import PruningPredicate
from ...predicate.row_filter import Probes
from ...storage import Source
from ...util.lazy import late_module
from .row_selection import RowSelection

if TYPE_CHECKING:
    from typing import Self

    from ... import orc
    from ...orc import OrcFile
else:
    orc = late_module("parquet_bloom.orc")


class FileProjection(NamedTuple):
    """The columns of a result that are read from one file.

    Attributes
    ----------
    names : columns to read; None for all.
    absent : columns of the result that the file does not have.
    schema : of the columns that are read.
    is_counter : whether the columns are read only for the number of rows, and are not part of the result.
    """

    names: list[str] | None
    absent: list[str]
    schema: pa.Schema
    is_counter: bool = False


class RowFilter(NamedTuple):
    """A predicate to evaluate on rows.

    Attributes
    ----------
    predicate : over columns as the file spells them; True if every row matches, False if none does.
    timezone : zone of literals without one.
    probes : long lists of literals, prepared for the rows of earlier row groups; see `predicate.row_filter.row_mask`.
    targets : literals of equalities as stored values to search for, prepared likewise, by the id of their leaf and the
        type of their column; None where stored values do not decide.
    """

    predicate: PruningPredicate | bool
    timezone: str
    probes: Probes
    targets: dict[tuple[int, ColumnType], Targets | None]


class Identified(Protocol):
    """An open file that can be told from a later one with the same path."""

    @property
    def source(self) -> Source: ...

    @property
    def row_groups(self) -> Sequence[int]: ...


class DataFile(Protocol):
    """An open file of rows in row groups; `open_file` in `scan/decode/` returns one. Errors name the file.

    Attributes
    ----------
    path, source : the file.
    format : `plan.PARQUET` or `plan.ORC`.
    leaves : its columns, dotted, in schema order.
    row_groups : their ordinals.
    schema : of its rows, as pyarrow gives it.
    """

    format: str

    @property
    def path(self) -> str: ...

    @property
    def source(self) -> Source: ...

    @property
    def leaves(self) -> Sequence[Named]: ...

    @property
    def row_groups(self) -> Sequence[int]: ...

    @property
    def schema(self) -> pa.Schema: ...

    def select_schema(self, columns: Sequence[str]) -> pa.Schema:
        """Return the schema of some columns, top-level ones or dotted leaves, in the file's order."""

    def num_rows_of(self, row_group: int) -> int:
        """Return the number of rows of a row group."""

    def find_stripe(self, row_group: int) -> int | None:
        """Return the stripe of an ORC file that a row group is of; None in other files."""

    def find_doubts(self, trust: ColumnCompatibility) -> Mapping[str, str]:
        """Return {column: why it is shown as other values than the file stores}, see `ColumnCompatibility`."""

    def select_rows(
        self, row_group: int, predicate: PruningPredicate | bool, selection: RowSelection | None = None
    ) -> list[tuple[int, int]]:
        """Return ranges of the rows of a row group that may match, without reading values.

        Parameters
        ----------
        selection : rows that zones leave; None for all.
        """

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...


_ORC = b"ORC"


def open_any(
    source: Source, cache: MetadataCache | None, variant: Variant | Literal["detect"] = FINAL
) -> BloomFile | OrcFile:
    """Open a Parquet or ORC file; `variant` is that of a Parquet file's filters (see `BloomFile`).

    Raises
    ------
    NotParquetError
        The file has neither format.
    ParquetBloomError
        Its footer cannot be read.
    """
    try:
        return BloomFile(source, cache, variant=variant)
    except NotParquetError as error:
        if orc.is_orc(source):  # the end of the file is still in memory
            return orc.OrcFile(source)
        if source.size >= len(_ORC) and source.read_at(0, len(_ORC)) == _ORC:
            problem = "not an ORC file, or one cut off: it begins with ORC, but does not end as one"
            raise NotParquetError(problem, path=error.path) from None
        raise

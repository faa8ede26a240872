"""A table whose files and rows are changed: its state, what a commit does to it, and what each format has to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...errors import ParquetBloomError
from ...file.numbered_column import NumberedColumn
from ...redaction import shown_redacted
from ..table_locations import require_inside
from ..table_snapshot import TableColumn, TableSnapshot
from .new_files import NewFiles

if TYPE_CHECKING:
    from ...util.given_types import FileSystem


class CommitConflict(Exception):
    """Another writer has changed the table since it was read; nothing was committed."""


class UnfitFiles(Exception):
    """Some of the files cannot be exchanged, as was found before anything was committed.

    Attributes
    ----------
    reasons : {entry of a file: why}.
    """

    def __init__(self, reasons: Mapping[Any, str]):
        super().__init__(reasons)
        self.reasons = reasons


class LiveFile(NamedTuple):
    """A data file of a table at one version.

    Attributes
    ----------
    path, size : the file, by the table's metadata.
    entry : what the metadata says of it; its meaning is the target's.
    reason : why it cannot be exchanged; None if it can.
    may_open : whether it may be read: False for files outside of the table's folder, unless a caller accepts them.
    may_hide : whether rows of it may be hidden although it cannot be exchanged, as it lies outside.
    """

    path: str
    size: int
    entry: Any
    reason: str | None = None
    may_open: bool = True
    may_hide: bool = False


class Exchange(NamedTuple):
    """A new file that holds the rows of a table's file and takes its place."""

    old: LiveFile
    path: str
    size: int
    num_filters: int


class HiddenRows(NamedTuple):
    """Rows of a table's file that a commit deletes though they stay in the file.

    Attributes
    ----------
    old : the file.
    rows : their numbers in the file, ascending, none of them deleted so far (int64).
    """

    old: LiveFile
    rows: NDArray[np.int64]


class RewrittenFile(NamedTuple):
    """A new file in place of one of a table, in its folder.

    It lacks all rows that are deleted, those of before as well: what has deleted them by their positions does not apply
    to the new file. What deletes rows by their values still does, as the rows that stay are as old as they were.

    Attributes
    ----------
    old : the file.
    rows : the numbers in it of the rows that the commit deletes, ascending (int64).
    path, size : the new file.
    num_rows : its rows.
    shared : columns whose dictionaries had values of no row there, see `DroppedRows`.
    """

    old: LiveFile
    rows: NDArray[np.int64]
    path: str
    size: int
    num_rows: int
    shared: Sequence[str] = ()


class NewFile(NamedTuple):
    """A file of new rows.

    Attributes
    ----------
    path, size : the file.
    num_rows : its rows.
    entry : what the metadata is to say of it; its meaning is the target's.
    """

    path: str
    size: int
    num_rows: int
    entry: Any


RowFileWriter = Callable[[pa.Table, Sequence[str]], Iterator[tuple[str, NewFile | None]]]
"""Writes rows, in the columns and types of a table, into files that have filters for some top-level columns. Yields the
path of each file before it is written, and once more with the file after that. Other processes may call it. Raises
ParquetBloomError if a value cannot be written."""


class RowChange(NamedTuple):
    """What a commit does to a table's rows.

    Attributes
    ----------
    hidden : rows that are deleted and stay in their files.
    removed : files that leave the table, with the rows by which they lose their last ones.
    operation : "delete" or "upsert".
    rewritten : files in place of others, without the rows that are deleted.
    added : files of new rows.
    """

    hidden: Sequence[HiddenRows]
    removed: Sequence[HiddenRows]
    operation: str
    rewritten: Sequence[RewrittenFile] = ()
    added: Sequence[NewFile] = ()

    @property
    def num_rows(self) -> int:
        """Number of rows that are deleted."""
        of_files = [*(file.rows for file in (*self.hidden, *self.removed)), *(file.rows for file in self.rewritten)]
        return sum(map(len, of_files))


@shown_redacted
@dataclass(frozen=True)
class SkippedFile:
    """A file of a table that stays as it is though it lacks filters.

    Attributes
    ----------
    path : the file.
    reason : why.
    """

    path: str
    reason: str


class History(NamedTuple):
    """The versions of a table that lead to a state, and the first one that is known to have the rows of a file.

    Attributes
    ----------
    versions : those that can be read, the oldest first; that of the state is the last.
    firsts : {path of a file: position in `versions`}. All later versions have its rows, too.
    """

    versions: Sequence[int]
    firsts: Mapping[str, int]


@dataclass(frozen=True)
class TableState:
    """A table at its latest version.

    Attributes
    ----------
    version : Delta's version or Iceberg's snapshot id.
    table_id : the identifier, which does not change with the table's name or place.
    files : the live files, sorted by path.
    schema : of the table's rows.
    columns : how files name the table's columns; None if as the table does.
    not_in_files : the columns of which files have no values.
    partition_values : the columns that the metadata has the values of, with a row for each file.
    properties : the table's.
    handle : the library's table at this version; its meaning is the target's.
    snapshot : what readers show of this version.
    deleting_problem : why no rows can be deleted at all; None if they can.
    hiding_problem : why rows cannot be deleted that stay in their files; None if they can.
    rewriting_problem : why files cannot be written anew without some of their rows; None if they can.
    """

    version: int | None
    table_id: str
    files: tuple[LiveFile, ...]
    schema: pa.Schema
    columns: tuple[TableColumn, ...] | None
    not_in_files: frozenset[str]
    partition_values: pa.Table
    properties: Mapping[str, str]
    handle: Any
    snapshot: TableSnapshot
    deleting_problem: str | None
    hiding_problem: str | None
    rewriting_problem: str | None


class Target(ABC):
    """A table in which files can be exchanged.

    Attributes
    ----------
    kind : "delta" or "iceberg".
    name : the table's folder or its name in a catalog, for reports and errors.
    filesystem : of its files, as `storage.resolve_filesystem` returns it; None for local files.
    storage_options : settings of the store that a table was given with; None for none.
    """

    kind: Literal["delta", "iceberg"]
    name: str
    filesystem: FileSystem | None = None
    storage_options: Mapping[str, object] | None = None

    @abstractmethod
    def read_state(self) -> TableState:
        """Read the latest version.

        Raises
        ------
        ParquetBloomError
            It cannot be read, or files of such a table cannot be exchanged.
        """

    @abstractmethod
    def name_new_file(self, old: LiveFile) -> str:
        """Return the path of a new file in the folder of an old one, named as the format's writers do."""

    def find_unfit(self, state: TableState, exchanges: Sequence[Exchange]) -> Mapping[Any, str]:
        """Return what `commit` would raise as `UnfitFiles.reasons`, without writing or committing anything."""
        return {}

    @abstractmethod
    def commit(
        self, state: TableState, exchanges: Sequence[Exchange], columns: Sequence[str], properties: Mapping[str, str]
    ) -> int | None:
        """Exchange files of a state by one commit, and return its version.

        Parameters
        ----------
        state : the version that the commit follows directly.
        columns : the columns that got filters, to be noted in the commit.
        properties : properties of the table to be set by the same commit.

        Raises
        ------
        CommitConflict
            Nothing was committed, as the table has a newer version by now.
        UnfitFiles
            Nothing was committed, as some of the files have to stay as they are.
        BaseException
            Whether it was committed is to be found out by `find_commit`.
        """

    def number_rows(self, state: TableState, files: Sequence[LiveFile]) -> Mapping[str, Sequence[NumberedColumn]]:
        """Return the columns that files have to get when they are written anew without rows, {path of a file: columns}.

        Without them a table that numbers rows by their positions in the file would give those that stay other numbers.

        Raises
        ------
        ParquetBloomError
            The numbers of a file's rows are not known.
        """
        return {}

    @abstractmethod
    def find_history(self, state: TableState, files: Sequence[LiveFile]) -> History:
        """Return which versions have had the rows of files, as far as that takes little to find out.

        Raises
        ------
        ParquetBloomError
            The table's history cannot be read.
        """

    @abstractmethod
    def make_row_writer(self, state: TableState) -> RowFileWriter:
        """Return what writes new rows into files, to be added by `commit_rows`.

        Raises
        ------
        ParquetBloomError
            Rows cannot be added to such a table.
        """

    def write_rows(
        self, state: TableState, rows: pa.Table, filters: Sequence[str], new_files: NewFiles
    ) -> list[NewFile]:
        """Write new rows into files; see `make_row_writer`. `new_files` gets the files."""
        written = []
        for path, file in self.make_row_writer(state)(rows, filters):
            new_files.expect([path])
            if file is not None:
                written.append(file)
        return written

    @abstractmethod
    def commit_rows(self, state: TableState, change: RowChange) -> int | None:
        """Delete and add rows by one commit, and return its version.

        Raises
        ------
        CommitConflict
            Nothing was committed, as the table has a newer version by now.
        ParquetBloomError
            The table does not allow it; or as `commit`.
        BaseException
            Whether it was committed is to be found out by `find_commit`.
        """

    @abstractmethod
    def find_commit(self, state: TableState) -> int | None:
        """Return the version that the last commit has made after all; None if it has not and cannot any more.

        Raises
        ------
        Exception
            It cannot be told.
        """


WAY_OUT = "ask such a table by a lake index (`parquet-bloom index create`), which changes nothing in it"


def find_outside(paths: Sequence[str], root: str) -> set[str]:
    """Return the files outside of a table's folder: anyone who can write its metadata chooses them."""
    try:
        require_inside(paths, root)
        return set()
    except ParquetBloomError:
        return {path for path in paths if _is_outside(path, root)}


def _is_outside(path: str, root: str) -> bool:
    try:
        require_inside([path], root)
    except ParquetBloomError:
        return True
    return False

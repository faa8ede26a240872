"""The interface of a table in which files can be exchanged for others with the same rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from ...errors import ParquetBloomError
from ...redaction import shown_redacted
from ..table_locations import require_inside
from ..table_snapshot import TableColumn


class CommitConflict(Exception):
    """Another writer has changed the table since it was read; nothing was committed."""


class LiveFile(NamedTuple):
    """A data file of a table at one version.

    Attributes
    ----------
    path, size : the file, by the table's metadata.
    entry : what the metadata says of it; its meaning is the target's.
    reason : why it cannot be exchanged; None if it can.
    may_open : whether it may be read: False for files outside of the table's folder.
    """

    path: str
    size: int
    entry: Any
    reason: str | None = None
    may_open: bool = True


class Exchange(NamedTuple):
    """A new file that holds the rows of a table's file and takes its place."""

    old: LiveFile
    path: str
    size: int
    num_filters: int


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


class Target(ABC):
    """A table in which files can be exchanged.

    Attributes
    ----------
    kind : "delta" or "iceberg".
    name : the table's folder or its name in a catalog, for reports and errors.
    """

    kind: Literal["delta", "iceberg"]
    name: str

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
        BaseException
            Whether it was committed is to be found out by `find_commit`.
        """

    @abstractmethod
    def find_commit(self, state: TableState, exchanges: Sequence[Exchange]) -> int | None:
        """Return the version by which `commit` has exchanged files after all; None if it has not and cannot any more.

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

"""Write what an Iceberg commit hides rows by: position delete files, or from version 3 of the format on vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyroaring import BitMap64

from ...errors import ParquetBloomError
from ...util.threads import in_order
from ..iceberg.iceberg_deletes import AppliedDeletes, find_target, make_vector_blob
from ..iceberg.iceberg_snapshot import Contents
from ..iceberg.manifests import DeleteFile, Partition
from ..table_locations import without_scheme
from ..table_snapshot import TableSnapshot, naming_file
from .moved_deletes import (
    FILES,
    VECTOR_SUFFIX,
    VECTORS_SINCE,
    DeleteChange,
    DeleteKey,
    NewDelete,
    make_key,
    sort_paths,
    write_position_file,
    write_vector,
)
from .table_target import HiddenRows, LiveFile, RowChange

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

POSITIONS_SINCE = 2  # the version of the format


class RowDeletes(NamedTuple):
    """What a commit that deletes rows does to the delete files.

    Attributes
    ----------
    added : {path of a data file, as the metadata has it: new deletes of its partition}, a data file for each partition.
    changed : what becomes of those that there are.
    """

    added: Mapping[str, Sequence[NewDelete]]
    changed: Mapping[DeleteKey, DeleteChange]


def explain_hiding(version: int) -> str | None:
    """Return why rows of a table of a version of the format cannot be hidden; None if they can."""
    return None if version >= POSITIONS_SINCE else f"it has format version {version}: upgrade it to version 2 first"


def require_deletable(contents: Contents, change: RowChange, name: str) -> None:
    """Raise ParquetBloomError unless rows can be deleted as a commit is to do; `name` is the table's."""
    version = contents.table.metadata.format_version
    problem = explain_hiding(version)
    if change.hidden and problem is not None:
        raise ParquetBloomError(f"rows cannot be hidden: {problem}", path=name)
    changed = [*(rows.old for rows in change.hidden), *(new.old for new in change.rewritten)]
    counts = dict(zip(contents.manifests.paths, contents.manifests.record_counts, strict=True))
    named: set[object] = set()
    for old in (*changed, *(rows.old for rows in change.removed)):
        if old.entry not in counts or old.entry in named:
            raise ParquetBloomError("the change is of a file that the table has not, or is named twice", path=old.path)
        named.add(old.entry)
    unfit = [rows.old for rows in change.hidden if not rows.old.may_hide] + [new.old for new in change.rewritten]
    for old in unfit:
        if old.reason is not None:
            raise ParquetBloomError(f"its rows cannot be deleted: {old.reason}", path=old.path)
    for old, rows in change.hidden:
        if not len(rows) or rows[0] < 0 or rows[-1] >= counts[old.entry] or (np.diff(rows) <= 0).any():
            wrong = f"the rows to be deleted are not numbers of its {counts[old.entry]:,} rows in ascending order"
            raise ParquetBloomError(wrong, path=old.path)
    for new in change.rewritten:
        if new.num_rows > counts[new.old.entry]:
            wrong = f"its {new.num_rows:,} rows are not the remaining ones of a file of the table"
            raise ParquetBloomError(wrong, path=new.path)


class RowHider:
    """Writes deletes.

    Parameters
    ----------
    contents : the table at the snapshot that the commit follows.
    snapshot : the same, to be read.
    sequence : the sequence number of the commit.
    name_file : returns the path of a new file, given that of one in the same folder and how its name ends.
    """

    def __init__(
        self, contents: Contents, snapshot: TableSnapshot, sequence: int, name_file: Callable[[str, str], str]
    ):
        self._contents, self._snapshot, self._sequence, self._name_file = contents, snapshot, sequence, name_file
        self._io: FileIO = contents.table.io
        self._rows = {path: row for row, path in enumerate(contents.manifests.paths)}

    def write(self, change: RowChange) -> RowDeletes:
        """Write the deletes of a commit.

        Raises
        ------
        ParquetBloomError
            Deletes of one of the files cannot be read, which its vector has to have in it as well.
        """
        has_vectors = self._contents.table.metadata.format_version >= VECTORS_SINCE
        # A vector takes the place of all that deletes rows of its file by position.
        over: list[LiveFile] = [rows.old for rows in change.hidden] if has_vectors else []
        over += [*(rows.old for rows in change.removed), *(new.old for new in change.rewritten)]
        obsolete = [file for old in over for file in self._list_own(old.entry)]
        added: dict[str, list[NewDelete]] = {}
        for like, new in (self._write_vectors if has_vectors else self._write_positions)(change.hidden):
            added.setdefault(like, []).append(new)
        return RowDeletes(added, {make_key(file): DeleteChange(False, ()) for file in obsolete})

    def _list_own(self, path: str) -> list[DeleteFile]:
        """Return the delete files, and the vector, that are about one data file alone."""
        applied: AppliedDeletes | None = self._contents.deletes.get(self._rows[path])
        if applied is None:
            return []
        plain = without_scheme(path)
        own = [file for file in applied.positions if find_target(file, {plain}) == plain]
        return own if applied.vector is None else [*own, applied.vector]

    def _write_positions(self, hidden: Sequence[HiddenRows]) -> Iterator[tuple[str, NewDelete]]:
        """Write a file for each partition; yield one of its data files with it."""
        for group in self._group(hidden).values():
            rows_of = {old.entry: rows for old, rows in group}
            names = sort_paths(rows_of)
            path = self._name_file(names[0], "deletes.parquet")
            size = write_position_file(self._io, path, ((name, rows_of[name]) for name in names))
            count, bounds = sum(map(len, rows_of.values())), (names[0].encode(), names[-1].encode())
            yield names[0], NewDelete(path, "PARQUET", self._sequence, size, count, None, None, None, *bounds)

    def _write_vectors(self, hidden: Sequence[HiddenRows]) -> Iterator[tuple[str, NewDelete]]:
        """Write a vector for each data file; yield one of the data files of its partition with it."""
        grouped = [(group[0].old.entry, each) for group in self._group(hidden).values() for each in group]
        with in_order(self._write_vector, [each for _, each in grouped], FILES) as written:
            for (like, _), new in zip(grouped, written, strict=True):
                yield like, new

    def _write_vector(self, hidden: HiddenRows) -> NewDelete:
        old, positions = hidden.old, BitMap64(hidden.rows.astype(np.uint64))
        deleted = self._snapshot.deletes.get(old.path)
        if deleted is not None:
            count = self._contents.manifests.record_counts[self._rows[old.entry]]
            with naming_file(old.path):
                positions |= BitMap64(deleted.find_positions(range(count)).astype(np.uint64))
        path = self._name_file(old.entry, VECTOR_SUFFIX)
        return write_vector(self._io, path, old.entry, make_vector_blob(positions), len(positions), self._sequence)

    def _group(self, hidden: Sequence[HiddenRows]) -> dict[Partition, list[HiddenRows]]:
        groups: dict[Partition, list[HiddenRows]] = {}
        for each in hidden:
            groups.setdefault(self._contents.manifests.partitions[self._rows[each.old.entry]], []).append(each)
        return groups

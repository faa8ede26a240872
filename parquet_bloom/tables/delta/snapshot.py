"""A Delta table at one version, as deltalake and the log describe it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from ...errors import ParquetBloomError
from ...predicate.statistics import PruningStatisticsArray
from ...redaction import shown_redacted
from ...storage.objects.errors import is_panic
from ...util.wording import count
from ..deleted_rows import DeletedRows
from ..locations import require_inside, resolve_delta_path
from ..snapshot import TableFile, TableSnapshot
from .log import read_live_adds, require_same_files
from .schema import DeltaLeaf, find_leaves, find_mapping_mode, make_columns, require_understood
from .statistics import make_statistics
from .vectors import FEATURE, DeletionVector, UndeclaredVector

_STATISTICS = ("num_records", "null_count", "min", "max")


@shown_redacted
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class DeltaSnapshot(TableSnapshot):
    """A Delta table at one version.

    Attributes
    ----------
    mapping_mode : how data files name columns: "none" (as the table does), "name" or "id".
    delta_schema : the schema in its JSON form.
    actions : the name that the log has for each of `files`, and what deltalake says of the values in it.
    leaves : {dotted name: column} of the columns that may have statistics.
    """

    mapping_mode: str
    delta_schema: Mapping[str, Any]
    actions: pa.Table
    leaves: Mapping[str, DeltaLeaf]
    _statistics: dict[str, PruningStatisticsArray | None] = field(default_factory=dict, init=False)

    def find_statistics(self, column: str) -> PruningStatisticsArray | None:
        """Return what the log says of a column's values; see `TableSnapshot.find_statistics`."""
        if column not in self._statistics:
            leaf = None if column in self.partition_values.column_names else self.leaves.get(column)
            self._statistics[column] = None if leaf is None else make_statistics(self.actions, leaf)
        return self._statistics[column]

    def name_files(self) -> Mapping[str, str]:
        """Return {path: name of the file in the log}."""
        names = self.actions["path"].to_pylist()
        return {file.path: name for file, name in zip(self.files, names, strict=True)}

    def __repr__(self) -> str:
        return f"<Delta table {self.root!r} at version {self.version}, {count(len(self.files), 'file')}>"


def make_snapshot(table: Any, root: str, filesystem: object | None, outside: bool) -> DeltaSnapshot:
    """Return the snapshot of a table at the version that deltalake has loaded.

    Parameters
    ----------
    table : a `deltalake.DeltaTable`.
    root : its folder, or its URL.
    filesystem : what `storage.resolve_filesystem` returns.
    outside : accept files outside of the table's folder.

    Raises
    ------
    StorageError
        The log cannot be read.
    ParquetBloomError
        The log is not understood, or the table has a file outside of its folder.
    Exception
        Of many kinds, from deltalake.
    """
    version, protocol, metadata = int(table.version()), table.protocol(), table.metadata()
    schema = json.loads(table.schema().to_json())
    require_understood(protocol, schema)
    mode, arrow = find_mapping_mode(protocol, metadata.configuration), pa.schema(table.schema().to_arrow())
    adds = pa.table(table.get_add_actions())
    files = _resolve_files(adds, root)
    if not outside:
        require_inside((file.path for file in files), root)
    order = sorted(range(len(files)), key=files.__getitem__)
    files, adds = [files[position] for position in order], adds.take(pa.array(order, pa.int64()))
    deletes: dict[str, DeletedRows] = {}
    has_feature = FEATURE in (protocol.reader_features or ())
    if has_feature or _may_have_vectors(table):
        actions = require_same_files(read_live_adds(root, version, filesystem, ()), files, root)
        for path, action in actions.items():
            if "deletionVector" in action and has_feature:
                deletes[path] = DeletionVector(action["deletionVector"], path, root, filesystem, outside)
            elif "deletionVector" in action:
                deletes[path] = UndeclaredVector(path, root)
    return DeltaSnapshot(
        "delta",
        str(metadata.id),
        version,
        root,
        arrow,
        files,
        make_columns(schema, mode),
        _take_partitions(adds, metadata.partition_columns, arrow),
        deletes,
        mapping_mode=mode,
        delta_schema=schema,
        actions=adds.select(["path", *(name for name in _STATISTICS if name in adds.column_names)]),
        leaves=find_leaves(schema, arrow, mode),
    )


def _may_have_vectors(table: Any) -> bool:
    """Return whether a table that should have no deletion vectors may have some; without reading the log again."""
    try:
        return any(batch.num_rows for batch in pa.RecordBatchReader.from_stream(table.deletion_vectors()))
    except BaseException as error:  # deltalake reads the vectors, too, and fails if it cannot
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        return True


def _resolve_files(adds: pa.Table, root: str) -> list[TableFile]:
    """Return the files of add actions, in their order."""
    names, sizes = adds["path"].to_pylist(), adds["size_bytes"].to_pylist()
    files = [TableFile(resolve_delta_path(name, root), int(size)) for name, size in zip(names, sizes, strict=True)]
    if len({file.path for file in files}) < len(files):
        paths = [file.path for file in files]
        twice = min(path for path in set(paths) if paths.count(path) > 1)
        raise ParquetBloomError(f"its log lists the file {twice} twice")
    return files


def _take_partitions(adds: pa.Table, names: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Return the partition columns, a row for each add action."""
    if not names:
        return adds.select([])
    fields = [schema.field(name) for name in names]
    if not adds.num_rows:
        return pa.schema(fields).empty_table()
    values = adds["partition"].combine_chunks()
    return pa.table([values.field(each.name).cast(each.type) for each in fields], pa.schema(fields))

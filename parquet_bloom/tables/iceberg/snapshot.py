"""An Iceberg table at one snapshot: its files by the manifests, and what is known of them before any is opened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from ...errors import ParquetBloomError, StorageError
from ...predicate.statistics import PruningStatisticsArray
from ...redaction import shown_redacted
from ..locations import require_inside, without_scheme
from ..snapshot import TableFile, TableSnapshot
from .cache import SizedCache
from .columns import Field, list_defaults, list_fields, make_arrow_schema, make_columns
from .deletes.rows import DeleteContext, EqualityDeletes, FileDeletes
from .locations import require_all_inside, require_location, resolve_path
from .manifests.entries import Manifests, read_manifests
from .matching import AppliedDeletes, match_deletes
from .partitions import find_identities, make_values, serialize_values
from .statistics import FieldStatistics
from .store_settings import translate_settings
from .versions import Request, choose_snapshot

_IN_METADATA = "its value in files without the column is in the table's metadata: read other columns"
_DEFAULT = "the table gives it a default in files without the column, which is not shown yet: read other columns"


@dataclass(frozen=True)
class Contents:
    """What the metadata says of a table at a snapshot.

    Attributes
    ----------
    table, snapshot, schema : pyiceberg's; the snapshot is None for a table without one.
    root : the table's location.
    files : the data files, sorted by path.
    order : the number of each of them in `manifests`.
    deletes : the delete files, by the number of the data file in `manifests`.
    """

    table: Any
    snapshot: Any
    schema: Any
    root: str
    files: list[TableFile]
    order: list[int]
    manifests: Manifests
    deletes: Mapping[int, AppliedDeletes]


@contextmanager
def named_errors(name: str) -> Iterator[None]:
    """Raise whatever pyiceberg raises as an error that names the table: StorageError, or as it is if it is ours."""
    try:
        yield
    except ParquetBloomError as error:
        error.path = error.path or name
        raise
    except Exception as error:  # of many kinds: pyarrow's, pydantic's, pyiceberg's
        raise StorageError.wrap(error, "cannot read the Iceberg table", name) from error


def read_contents(
    table: Any, request: Request, name: str, given: str | None, outside: bool, cache: SizedCache | None = None
) -> Contents:
    """Read the metadata of a table.

    Parameters
    ----------
    table : pyiceberg's.
    request : which snapshot.
    name : of the table, for errors.
    given : the path of the table's folder or of a metadata file; None for a table of a catalog, which may lie anywhere.
    outside : accept files outside of the table's location, and a location other than the given one.
    cache : what was read of manifests; None to read all.

    Raises
    ------
    StorageError
        There is no such snapshot, or pyiceberg cannot read it.
    ParquetBloomError
        The metadata is not understood, or names files outside.
    """
    with named_errors(name):
        snapshot, schema = choose_snapshot(table, request, name)
        root = resolve_path(table.location().rstrip("/") or "/", name)
        if given is not None and not outside:
            require_location(root, given)
        manifests = read_manifests(table, snapshot, root if given is not None and not outside else None, name, cache)
        paths = [resolve_path(path, name) for path in manifests.paths]
        order = sorted(range(len(paths)), key=paths.__getitem__)
        files = [TableFile(paths[row], manifests.sizes[row]) for row in order]
        deletes = match_deletes(manifests, table.specs())
    for row, file_format in enumerate(manifests.formats):
        if str(file_format).upper() != "PARQUET":
            raise ParquetBloomError(f"its file {manifests.paths[row]} is not a Parquet file", path=name)
    twice = next((one.path for one, two in pairwise(files) if one.path == two.path), None)
    if twice is not None:
        raise ParquetBloomError(f"its file {twice} is listed twice: its rows would be counted twice", path=name)
    if not outside:
        require_inside(paths, root)
    return Contents(table, snapshot, schema, root, files, order, manifests, deletes)


@shown_redacted
@dataclass(frozen=True, eq=False)
class IcebergSnapshot(TableSnapshot):
    """An Iceberg table at one snapshot.

    Attributes
    ----------
    fields : columns and fields of structs by their dotted names, without ambiguous ones.
    identities : see `partitions.find_identities`.
    """

    fields: Mapping[str, Field] = field(default_factory=dict, repr=False)
    identities: Mapping[int, Mapping[int, int]] = field(default_factory=dict, repr=False)
    statistics: FieldStatistics | None = field(default=None, repr=False)
    _known: dict[str, PruningStatisticsArray | None] = field(default_factory=dict, init=False, repr=False)

    def find_statistics(self, column: str) -> PruningStatisticsArray | None:
        """Return what the manifests say of a column's values, an entry for each of `files`; None if nothing."""
        if column not in self._known:
            found, statistics = self.fields.get(column), self.statistics
            if found is None or statistics is None:
                return None
            self._known[column] = statistics.find(found, self._find_partition_values(found, statistics))
        return self._known[column]

    def name_files(self) -> Mapping[str, str]:
        """Return {path: name of the file in the manifests}."""
        if self.statistics is None:
            return super().name_files()
        names = self.statistics.manifests.paths
        rows = self.statistics.order.tolist()
        return {file.path: names[row] for file, row in zip(self.files, rows, strict=True)}

    def _find_partition_values(self, column: Field, statistics: FieldStatistics) -> pa.StructArray | None:
        positions = self.identities.get(column.field_id)
        if not positions:
            return None
        manifests = statistics.manifests
        values, known = [], []
        for row in statistics.order.tolist():
            position = positions.get(manifests.partitions[row][0])
            known.append(position is not None)
            values.append(None if position is None else manifests.values[row][position])
        return serialize_values(column, values, known)


def make_snapshot(contents: Contents, name: str, outside: bool) -> IcebergSnapshot:
    """Make the snapshot from a table's metadata.

    Raises
    ------
    ParquetBloomError
        The metadata is not understood.
    """
    table, manifests = contents.table, contents.manifests
    try:
        schema = make_arrow_schema(contents.schema)
        fields = list_fields(contents.schema, schema)
        columns = make_columns(contents.schema, table.name_mapping())
        identities = find_identities(table.specs())
        partition_values = _make_partition_values(contents, fields, identities)
    except Exception as error:  # of many kinds: pyiceberg's, pyarrow's
        raise StorageError.wrap(error, "cannot understand the Iceberg table", name) from error
    order = np.array(contents.order, np.intp)
    places = np.empty(len(order), np.intp)
    places[order] = np.arange(len(order))
    context = DeleteContext(
        table.io,
        {each.field_id: each for each in fields},
        partial(_check_delete_file, None if outside else contents.root, name),
        SizedCache(),
    )
    files, deletes = contents.files, {}
    by_values: dict[int, EqualityDeletes] = {}  # files that the same ones apply to share the tuple of them
    for place, row in enumerate(contents.order):
        if row in contents.deletes:
            path, applied = files[place].path, contents.deletes[row]
            written, values = without_scheme(manifests.paths[row]), None
            if applied.equality:
                values = by_values.setdefault(id(applied.equality), EqualityDeletes(applied.equality, context))
            deletes[path] = FileDeletes(written, applied, context, values)
    return IcebergSnapshot(
        "iceberg",
        str(table.metadata.table_uuid),
        None if contents.snapshot is None else int(contents.snapshot.snapshot_id),
        contents.root,
        schema,
        files,
        columns,
        partition_values,
        deletes,
        _find_undefined(contents, fields, identities, partition_values.schema.names),
        _by_name(fields),
        identities,
        FieldStatistics(manifests, order, places),
        storage_options=translate_settings(table.io.properties),
    )


def _check_delete_file(root: str | None, name: str, path: str) -> None:
    if root is not None:
        require_all_inside([path], root, name)


def _by_name(fields: Sequence[Field]) -> dict[str, Field]:
    names = [each.name for each in fields]
    counts = dict.fromkeys(names, 0)
    for each in names:
        counts[each] += 1
    return {each.name: each for each in fields if counts[each.name] == 1}


def _make_partition_values(
    contents: Contents, fields: Sequence[Field], identities: Mapping[int, Mapping[int, int]]
) -> pa.Table:
    """Return the columns of which the metadata has the value for every file; a row for each."""
    manifests, order = contents.manifests, contents.order
    arrays = {"": pa.nulls(len(order))}
    specs = {partition[0] for partition in manifests.partitions}
    for column in fields:
        positions = identities.get(column.field_id)
        if column.depth == 1 and positions and specs and specs <= positions.keys():
            values = [manifests.values[row][positions[manifests.partitions[row][0]]] for row in order]
            arrays[column.name] = make_values(values, column.arrow_type)
    return pa.table(arrays).select([name for name in arrays if name])


def _find_undefined(
    contents: Contents,
    fields: Sequence[Field],
    identities: Mapping[int, Mapping[int, int]],
    given: Sequence[str],
) -> dict[str, dict[str, str]]:
    """Return the columns that a file may lack without being null in its rows, and why."""
    defaults = {name: _DEFAULT for name in list_defaults(contents.schema.fields) if name not in given}
    by_spec: dict[int, dict[str, str]] = {}
    result = {}
    for place, row in enumerate(contents.order):
        spec_id = contents.manifests.partitions[row][0]
        if spec_id not in by_spec:
            in_metadata = {
                each.name: _IN_METADATA
                for each in fields
                if spec_id in identities.get(each.field_id, ()) and each.name not in given
            }
            by_spec[spec_id] = defaults | in_metadata
        if by_spec[spec_id]:
            result[contents.files[place].path] = by_spec[spec_id]
    return result

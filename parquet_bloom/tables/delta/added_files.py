"""Write new rows into files of a Delta table, and describe them as its log does.

Source: the Delta transaction log protocol, sections "Add File and Remove File", "Partition Value Serialization",
"Per-file Statistics" and "Writer Requirements for Column Mapping".
"""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...errors import ParquetBloomError
from ...file.filter_builder import FilterOptions
from ...file.write_table import write_file
from ...storage.index_folder import Folder
from ...util.arrow_values import take
from ...variant.variant_type import is_variant
from .delta_log import Action
from .delta_properties import ROW_TRACKING, is_on
from .delta_snapshot import DeltaSnapshot, JsonObject, Path
from .parsed_statistics import make_bound

if TYPE_CHECKING:
    from ...util.given_types import FileSystem

_LONGEST_NAME = 100  # characters of a column's or a value's part in the name of a folder
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_MAPPED_NAME, _MAPPED_ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"
_LEAVES_WITH_STATISTICS = 32  # as other writers do by default

# Metadata of fields by which a writer has to compute or check values.
_RULES = {
    "delta.generationExpression": "is computed from others",
    "delta.invariants": "has an invariant",
    "delta.identity.start": "numbers its rows",
    "CURRENT_DEFAULT": "has a default",
}
_CONSTRAINTS = "delta.constraints."
_COMPATIBILITY = "delta.enableIcebergCompat"
_WAY_OUT = "; merge them by Spark"


class DeltaFile(NamedTuple):
    """A file of new rows.

    Attributes
    ----------
    size : in bytes.
    num_rows : its rows.
    add : its add action.
    """

    size: int
    num_rows: int
    add: Action


def require_appendable(snapshot: DeltaSnapshot, properties: Mapping[str, str]) -> None:
    """Raise ParquetBloomError for a table whose new rows need more than that they are written.

    Parameters
    ----------
    properties : the table's.
    """
    for field in snapshot.delta_schema["fields"]:
        for name, what in _RULES.items():
            if name in field["metadata"]:
                problem = f"its column '{field['name']}' {what}, which is not done here{_WAY_OUT}"
                raise ParquetBloomError(f"rows cannot be added to the table: {problem}", path=snapshot.root)
    for name in properties:
        if name.startswith(_CONSTRAINTS):
            problem = f"its constraint '{name.removeprefix(_CONSTRAINTS)}' is not checked here{_WAY_OUT}"
            raise ParquetBloomError(f"rows cannot be added to the table: {problem}", path=snapshot.root)
        if is_on(properties, name) and (name == ROW_TRACKING or name.startswith(_COMPATIBILITY)):
            problem = f"its property {name} is not heeded here for new rows{_WAY_OUT}"
            raise ParquetBloomError(f"rows cannot be added to the table: {problem}", path=snapshot.root)


def write_rows(
    snapshot: DeltaSnapshot, rows: pa.Table, filters: Sequence[str], filesystem: FileSystem | None
) -> Iterator[tuple[str, DeltaFile | None]]:
    """Write rows, a file for each partition; yield the path of each before it is written, and once more after that.

    Parameters
    ----------
    rows : in the columns and types of the table.
    filters : top-level columns that get filters.

    Raises
    ------
    ParquetBloomError
        A value cannot be written.
    """
    partitions = snapshot.partition_values.column_names
    fields = snapshot.delta_schema["fields"]
    mode = snapshot.mapping_mode
    stored = [field for field in fields if field["name"] not in partitions]
    physical = {field["name"]: _name_in_files(field, mode) for field in fields}
    schema = pa.schema([_map_field(field, rows.schema.field(field["name"]), mode) for field in stored])
    requested = {physical[name]: FilterOptions() for name in filters if name not in partitions}
    for values, part in _split(rows, partitions):
        texts = {physical[name]: _to_text(value, name, snapshot.root) for name, value in values.items()}
        folders = "".join(f"{_escape(name)}={_escape(text or _NO_VALUE)}/" for name, text in texts.items())
        name = f"{folders}part-00000-{uuid4()}.c000.snappy.parquet"
        path = f"{snapshot.root.rstrip('/')}/{name}"
        yield path, None
        Folder(os.path.dirname(path), filesystem).make()
        data = pa.Table.from_arrays(
            [
                _rename(part[field["name"]], schema.field(number).type, field["name"], snapshot.root)
                for number, field in enumerate(stored)
            ],
            schema=schema,
        )
        size = write_file(data, path, requested, filesystem).new_size
        add = {
            "path": quote(name, safe="/=-_.~"),
            "partitionValues": texts,
            "size": size,
            "modificationTime": time.time_ns() // 1_000_000,
            "dataChange": True,
            "stats": json.dumps(_measure(data), separators=(",", ":"), ensure_ascii=False),
        }
        yield path, DeltaFile(size, data.num_rows, add)


def _split(rows: pa.Table, partitions: Sequence[str]) -> Iterator[tuple[dict[str, object], pa.Table]]:
    """Yield the values of each partition, and its rows."""
    if not partitions:
        yield {}, rows
        return
    codes = np.zeros(rows.num_rows, np.int64)
    for name in partitions:
        encoded = rows[name].combine_chunks().dictionary_encode(null_encoding="encode")
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        numbers = np.unique(np.asarray(encoded.indices), return_inverse=True)[1]
        codes = np.unique(codes * (int(numbers.max(initial=0)) + 1) + numbers, return_inverse=True)[1]
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(int(codes.max(initial=-1)) + 1), "right")
    for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        part = take(rows, order[start:end])
        yield {name: part[name][0].as_py() for name in partitions}, part


def _to_text(value: object, name: str, path: str) -> str | None:
    """Return a partition value as the log has it.

    Raises
    ------
    ParquetBloomError
        The log has no text for it.
    """
    if value is None:
        return None
    if value == "":
        problem = "a row has an empty text, by which the table is partitioned: the format has no other than null there"
        raise ParquetBloomError(problem, path=path, column=name)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dt.datetime):
        moment = value if value.tzinfo is None else value.astimezone(dt.UTC)
        return moment.replace(tzinfo=None).isoformat(" ", "microseconds")
    if isinstance(value, str | int | dt.date):
        return str(value)
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    problem = f"rows cannot be added to a partition by values of the type {type(value).__name__}"
    raise ParquetBloomError(problem, path=path, column=name)


def _escape(text: str) -> str:
    """Return a part of a folder's name as Hive and its successors escape it; readers do not depend on it."""
    return quote(text, safe=" !$&()+,-.;@_~")[:_LONGEST_NAME]


def _name_in_files(field: JsonObject, mode: str) -> str:
    return str(field["name"] if mode == "none" else field["metadata"][_MAPPED_NAME])


def _map_field(field: JsonObject, arrow: pa.Field, mode: str) -> pa.Field:
    """Return a field as files have it: by its physical name, and with its id."""
    metadata = None if mode == "none" else {"PARQUET:field_id": str(field["metadata"][_MAPPED_ID])}
    kind = _map_type(field["type"], arrow.type, mode)
    return pa.field(_name_in_files(field, mode), kind, field["nullable"], metadata)


def _map_type(kind: str | JsonObject, arrow: pa.DataType, mode: str) -> pa.DataType:
    if isinstance(kind, str) or mode == "none":
        return arrow
    if kind["type"] == "struct":
        return pa.struct([_map_field(part, arrow.field(i), mode) for i, part in enumerate(kind["fields"])])
    if kind["type"] == "array":
        return pa.list_(pa.field("element", _map_type(kind["elementType"], arrow.value_type, mode)))
    key = _map_type(kind["keyType"], arrow.key_type, mode)
    return pa.map_(key, _map_type(kind["valueType"], arrow.item_type, mode))


def _rename(column: pa.ChunkedArray, kind: pa.DataType, name: str, path: str) -> pa.ChunkedArray:
    """Return a column in a type that differs in the names of fields; a cast would look for fields by their names."""
    if pa.types.is_nested(kind):  # without items that are no row's, which may be null where rows may not
        column = take(column, np.arange(len(column)))
    try:
        return pa.chunked_array([chunk.view(kind) for chunk in column.chunks], kind)
    except pa.ArrowInvalid as error:
        raise ParquetBloomError(f"its rows cannot be written: {error}", path=path, column=name) from None


def _measure(data: pa.Table) -> dict[str, object]:
    """Return the statistics of a file's rows."""
    statistics: dict[str, dict[str, object]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for path, column in _list_leaves(data)[:_LEAVES_WITH_STATISTICS]:
        _put(statistics["nullCount"], path, column.null_count)
        low, high = _find_bounds(column)
        if low is not None:
            _put(statistics["minValues"], path, low)
        if high is not None:
            _put(statistics["maxValues"], path, high)
    return {"numRecords": data.num_rows, **statistics}


def _list_leaves(data: pa.Table) -> list[tuple[Path, pa.ChunkedArray]]:
    """Return the columns that are no structs, and fields of structs, but nothing of Variants, lists and maps."""
    leaves: list[tuple[Path, pa.ChunkedArray]] = []

    def walk(path: Path, column: pa.ChunkedArray) -> None:
        if is_variant(column.type):
            leaves.append((path, column))
        elif pa.types.is_struct(column.type):
            for number in range(column.type.num_fields):
                walk((*path, column.type.field(number).name), pc.struct_field(column, [number]))
        elif not pa.types.is_nested(column.type):
            leaves.append((path, column))

    for field in data.schema:
        walk((field.name,), data[field.name])
    return leaves


def _find_bounds(column: pa.ChunkedArray) -> tuple[object, object]:
    """Return the least and the greatest value as statistics have them; None for one that is left out."""
    kind = column.type
    if pa.types.is_floating(kind) and pc.any(pc.is_nan(column)).as_py():
        return None, None  # engines differ about its order
    is_ordered = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_date(kind)
    if not (is_ordered or pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_timestamp(kind)):
        return None, None
    found = pc.min_max(column)
    return make_bound(found["min"].as_py(), upper=False), make_bound(found["max"].as_py(), upper=True)


def _put(values: dict[str, object], path: Path, value: object) -> None:
    for name in path[:-1]:
        nested = values.setdefault(name, {})
        assert isinstance(nested, dict)
        values = nested
    values[path[-1]] = value

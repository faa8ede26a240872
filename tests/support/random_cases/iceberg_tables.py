"""Random Iceberg tables of all format versions with all kinds of deletes, and the rows that they have.

Which rows are deleted is worked out row by row from the specification's rules; nothing here knows the code under test.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa

from support.oracle.ranked import Ranked, key
from support.writers.iceberg_tables import PATH_ID, Entry, HandTable
from support.writers.peers import VALUES


@dataclass(frozen=True)
class Column:
    """A column, before and after the table's schema changed: name, type and Arrow type; None while it is not there."""

    field_id: int
    kind: str
    old: tuple[str, Any, pa.DataType] | None
    new: tuple[str, Any, pa.DataType] | None
    within: int | None = None


def _same(number: int, name: str, kind: str, iceberg: Any, arrow: pa.DataType, new_name: str | None = None) -> Column:
    return Column(number, kind, (name, iceberg, arrow), (new_name or name, iceberg, arrow))


COLUMNS = [
    _same(1, "id", "i64", "long", pa.int64()),
    Column(2, "i32", ("n", "int", pa.int32()), ("n", "long", pa.int64())),
    Column(3, "f32", ("f", "float", pa.float32()), ("f", "double", pa.float64())),
    Column(4, "d9", ("d", "decimal(9, 2)", pa.decimal128(9, 2)), ("d", "decimal(18, 2)", pa.decimal128(18, 2))),
    _same(5, "t", "ts_us", "timestamp", pa.timestamp("us")),
    _same(6, "z", "tz_us", "timestamptz", pa.timestamp("us", "UTC")),
    _same(7, "a", "date", "date", pa.date32()),
    _same(8, "c", "time_us", "time", pa.time64("us")),
    _same(9, "s", "str", "string", pa.large_string(), "s new"),
    _same(10, "b", "bin", "binary", pa.large_binary()),
    _same(11, "x", "flba", "fixed[5]", pa.binary(5)),
    _same(12, "u", "uuid", "uuid", pa.uuid()),
    _same(13, "o", "bool", "boolean", pa.bool_()),
    Column(15, "str", ("q", "string", pa.large_string()), ("q", "string", pa.large_string()), within=14),
    _same(16, "k", "i32", "int", pa.int32()),
    Column(17, "i64", None, ("later", "long", pa.int64())),
    Column(18, "str", ("gone", "string", pa.large_string()), None),
]
STRUCT = {14: "st"}
DEFAULTS = {17: 7}
"""{field id: value in files without the column}, of tables of version 3."""
BY_ID = {column.field_id: column for column in COLUMNS}
SPECS = [[], [{"source-id": 16, "field-id": 1000, "name": "k", "transform": "identity"}]]


@dataclass
class DataFile:
    entry: Entry
    version: int
    rows: list[dict[int, Any]]
    deleted: set[int] = field(default_factory=set)
    by_values: set[int] = field(default_factory=set)  # those of them that equality deletes name


@dataclass
class RandomTable:
    """A table: its metadata file and its data files.

    Attributes
    ----------
    has_equality : whether it has equality deletes, which pyiceberg refuses.
    equality_ids : the field ids of their columns.
    unusual : whether files of positions name rows that were added after them, or were replaced by vectors that lack
        positions of theirs: these are not deleted, but other readers do not show them.
    """

    metadata: str
    files: list[DataFile]
    has_equality: bool
    unusual: bool
    equality_ids: set[int]

    def has_nulls(self) -> bool:
        """Return whether a column that equality deletes are for has nulls: DuckDB shows no such row, or ends."""
        rows = [row for file in self.files for row in file.rows]
        return any(row.get(number) is None for row in rows for number in self.equality_ids)

    def list_ids(self) -> list[int]:
        """Return the ids of the rows that are not deleted."""
        kept = [row[1] for file in self.files for i, row in enumerate(file.rows) if i not in file.deleted]
        return sorted(kept)

    def rank(self) -> tuple[list[Ranked], np.ndarray]:
        """Return the columns of all rows for random predicates, and the file of each row."""
        rows = [row for file in self.files for row in file.rows]
        numbers = np.repeat(np.arange(len(self.files)), [len(file.rows) for file in self.files])
        ranked = []
        for column in COLUMNS:
            if column.new is not None and column.field_id != 1:
                name = column.new[0] if column.within is None else f"{STRUCT[column.within]}.{column.new[0]}"
                pool = [row.get(column.field_id) for row in rows]
                ranked.append(Ranked(name, column.kind, column.new[2], pool, np.arange(len(rows))))
        return ranked, numbers


def draw_table(rng: random.Random, root: Path) -> RandomTable:
    """Write a random table."""
    version = rng.choice([1, 2, 2, 3, 3])
    table = HandTable(root, [_describe(0), _describe(1, DEFAULTS if version == 3 else {})], SPECS, version)
    files: list[DataFile] = []
    partitions: list[Any] = [rng.choice([None, 0, 1, -5]) for _ in range(2)]
    first, full = 0, rng.random() < 0.3
    for _ in range(rng.randint(1, 6)):
        file = _draw_file(rng, table, first, partitions, full)
        first += len(file.rows)
        files.append(file)
    entries = [file.entry for file in files]
    has_equality, equality_ids = False, set()
    complete, early = rng.random() < 0.7, False
    if version > 1:
        for _ in range(rng.choice([0, 0, 1, 3])):
            has_equality = True
            entries.append(_delete_by_values(rng, table, files))
            equality_ids.update(entries[-1].equality_ids or ())
        for _ in range(rng.choice([0, 1, 3])):
            entry, is_early = _delete_positions(rng, table, files)
            entries.append(entry)
            early = early or is_early
    if version == 3 and rng.random() < 0.8:
        entries += _delete_by_vectors(rng, table, files, complete)
    rng.shuffle(entries)
    table.add_snapshot(entries)
    return RandomTable(table.write_metadata(), files, has_equality, early or not complete, equality_ids)


def _describe(version: int, defaults: Mapping[int, Any] = MappingProxyType({})) -> list[dict[str, Any]]:
    """Return a schema as metadata has it."""
    result: list[dict[str, Any]] = []
    for column in COLUMNS:
        form = column.new if version else column.old
        if form is None:
            continue
        described = {"id": column.field_id, "name": form[0], "required": False, "type": form[1]}
        if column.field_id in defaults:
            described["initial-default"] = defaults[column.field_id]
        if column.within is not None:
            inner = {"type": "struct", "fields": [described]}
            described = {"id": column.within, "name": STRUCT[column.within], "required": False, "type": inner}
        result.append(described)
    return result


def _make_table(rows: Sequence[dict[int, Any]], version: int, ids: Sequence[int]) -> tuple[pa.Table, dict[str, int]]:
    """Return columns of rows as a file of a schema's version has them, and their field ids."""
    arrays: dict[str, Any] = {}
    numbers: dict[str, int] = {}
    for number in ids:
        column = BY_ID[number]
        form = column.new if version else column.old
        assert form is not None
        values = [row.get(number) for row in rows]
        if column.kind == "uuid":
            values = [value and value.bytes for value in values]
            array = pa.ExtensionArray.from_storage(form[2], pa.array(values, pa.binary(16)))
        else:
            array = pa.array(values, form[2])
        if column.within is None:
            arrays[form[0]], numbers[form[0]] = array, number
        else:
            name = STRUCT[column.within]
            mask = pa.array([row.get(14) is None for row in rows])
            arrays[name] = pa.StructArray.from_arrays([array], [form[0]], mask=mask)
            numbers |= {name: column.within, f"{name}.{form[0]}": number}
    return pa.table(arrays), numbers


def _draw_value(rng: random.Random, kind: str) -> Any:
    values = VALUES[kind]
    return rng.choice(values.always) if rng.random() < 0.5 else values.draw(rng)


def _fill(value: Any, kind: str) -> Any:
    """Return the value, or one that is not null."""
    return VALUES[kind].always[0] if value is None else value


def _draw_file(rng: random.Random, table: HandTable, first: int, partitions: Sequence[Any], full: bool) -> DataFile:
    version, spec = rng.randint(0, 1), rng.randint(0, 1)
    here = [column for column in COLUMNS if (column.new if version else column.old) is not None]
    constant = {column.field_id: _draw_value(rng, column.kind) for column in here if rng.random() < 0.3}
    rows = []
    for number in range(first, first + rng.choice([1, 7, 20])):
        row = {each.field_id: constant.get(each.field_id, _draw_value(rng, each.kind)) for each in here}
        if table.version == 3:
            row = DEFAULTS | row
        row |= {1: number, 14: rng.choice([None, {}, {}])}
        if row[14] is None:
            row[15] = None
        if full:
            row = {number: _fill(value, BY_ID[number].kind) if number in BY_ID else {} for number, value in row.items()}
        rows.append(row)
    partition: tuple[Any, ...] = ()
    if spec:
        partition = (rng.choice(list(partitions)),)
        for row in rows:
            row[16] = partition[0]
    made, ids = _make_table(rows, version, [each.field_id for each in here])
    sequence = 0 if table.version == 1 else rng.randint(1, 6)
    metrics = _measure(rng, rows, version, here)
    entry = table.write_file(made, ids, spec=spec, partition=partition, sequence=sequence, metrics=metrics)
    entry.status = rng.choice([0, 1])
    return DataFile(entry, version, rows)


def _measure(rng: random.Random, rows: Sequence[dict[int, Any]], version: int, here: Sequence[Column]) -> Any:
    """Return metrics as writers have them, with gaps; bounds of texts are shortened."""
    from pyiceberg.conversions import to_bytes
    from pyiceberg.schema import Schema
    from pyiceberg.utils.truncate import truncate_upper_bound_binary_string, truncate_upper_bound_text_string

    schema = Schema.model_validate({"type": "struct", "schema-id": 0, "fields": _describe(version)})
    result: dict[str, dict[int, Any]] = {"values": {}, "nulls": {}, "lower": {}, "upper": {}, "nans": {}}
    for column in here:
        number = column.field_id
        if rng.random() < 0.2:
            continue
        form = column.new if version else column.old
        assert form is not None
        values = [row[number] for row in rows if row[number] is not None]
        result["values"][number], result["nulls"][number] = len(rows), len(rows) - len(values)
        values = [value for value in values if not (isinstance(value, float) and math.isnan(value))]
        if not values or rng.random() < 0.2:
            continue
        low, high = (choose(values, key=lambda value: key(value, form[2])) for choose in (min, max))
        if column.kind == "str":
            low, high = low[:3], truncate_upper_bound_text_string(high, 3)
        elif column.kind == "bin":
            low, high = low[:3], truncate_upper_bound_binary_string(high, 3)
        kind = schema.find_type(number)
        result["lower"][number] = to_bytes(kind, low)
        if high is not None:
            result["upper"][number] = to_bytes(kind, high)
    return result


def _choose_files(rng: random.Random, files: Sequence[DataFile]) -> list[DataFile]:
    """Return files of one partition, one at least."""
    one = rng.choice(files)
    alike = [each for each in files if (each.entry.spec, each.entry.partition) == (one.entry.spec, one.entry.partition)]
    return [each for each in alike if each is one or rng.random() < 0.6]


def _delete_positions(rng: random.Random, table: HandTable, files: Sequence[DataFile]) -> tuple[Entry, bool]:
    """Delete rows by a file of positions; the result also says whether it names rows that were added after it."""
    chosen = _choose_files(rng, files)
    sequence = rng.randint(1, 7)
    pairs = []
    for file in chosen:
        positions = [i for i in range(len(file.rows)) if rng.random() < 0.3]
        pairs += [(file.entry.path, i) for i in positions]
        if sequence >= (file.entry.sequence or 0):
            file.deleted.update(positions)
    pairs.append((chosen[0].entry.path, 10_000))  # no row
    entry = table.write_positions(
        pairs, spec=chosen[0].entry.spec, partition=chosen[0].entry.partition, sequence=sequence
    )
    names = sorted({path for path, _ in pairs})
    if rng.random() < 0.5:
        entry.metrics = {"lower": {PATH_ID: names[0].encode()}, "upper": {PATH_ID: names[-1].encode()}}
    if len(names) == 1 and rng.random() < 0.5:
        entry.referenced = names[0]
    return entry, any(sequence < (file.entry.sequence or 0) for file in chosen)


def _delete_by_vectors(rng: random.Random, table: HandTable, files: Sequence[DataFile], complete: bool) -> list[Entry]:
    """Delete rows by vectors, which replace the files of positions; `complete` ones hold these positions too."""
    chosen = [file for file in files if rng.random() < 0.6]
    vectors, entries = {}, []
    for file in chosen:
        positions = [i for i in range(len(file.rows)) if rng.random() < 0.4] or [0]
        if not complete:
            file.deleted &= file.by_values  # files of positions no longer apply
        file.deleted.update(positions)
        positions = sorted({*positions, *(file.deleted if complete else ())})
        vectors[file.entry.path] = positions  # below 2^32, as pyiceberg fails beyond
    for entry, file in zip(table.write_vectors(vectors), chosen, strict=True):
        entry.spec, entry.partition = file.entry.spec, file.entry.partition
        entry.sequence = rng.randint(file.entry.sequence or 0, 8)
        entries.append(entry)
    return entries


def _delete_by_values(rng: random.Random, table: HandTable, files: Sequence[DataFile]) -> Entry:
    version = rng.randint(0, 1)
    there = [each for each in COLUMNS if each.new is not None and (each.old is not None or version)]
    ids = sorted({rng.choice(there).field_id for _ in range(rng.choice([1, 1, 2, 3]))})
    somewhere = rng.choice([None, rng.choice(files)])
    spec, partition = (0, ()) if somewhere is None else (somewhere.entry.spec, somewhere.entry.partition)
    sequence = rng.randint(2, 8)
    rows = []
    for _ in range(rng.choice([1, 3, 8])):
        row = dict(rng.choice(rng.choice(files).rows))
        if rng.random() < 0.3:
            for number in ids:
                row[number] = _draw_value(rng, BY_ID[number].kind)
        rows.append({number: row.get(number) for number in [*ids, 14]})
    for row in rows:
        row[14] = {} if row.get(15) is not None else row.get(14)
    made, numbers = _make_table(rows, version, ids)
    entry = table.write_equality(made, numbers, equality_ids=ids, spec=spec, partition=partition, sequence=sequence)
    for file in files:
        alike = spec == 0 or (spec, partition) == (file.entry.spec, file.entry.partition)
        if alike and (file.entry.sequence or 0) < sequence:
            for i, row in enumerate(file.rows):
                if any(all(_equal(row.get(number), one.get(number)) for number in ids) for one in rows):
                    file.deleted.add(i)
                    file.by_values.add(i)
    return entry


def _equal(one: Any, two: Any) -> bool:
    if isinstance(one, float) and isinstance(two, float):
        if math.isnan(one) or math.isnan(two):
            return math.isnan(one) and math.isnan(two)
        return one == two and math.copysign(1, one) == math.copysign(1, two)
    return one is None and two is None if one is None or two is None else one == two


def draw_rows(rng: random.Random, files: int, most: int) -> list[pa.Table]:
    """Return rows of the new schema for some files; the ids of each begin at its thousand."""
    here = [column for column in COLUMNS if column.new is not None and column.within is None]
    parts = []
    for number in range(files):
        constant = {column.field_id: _draw_value(rng, column.kind) for column in here if rng.random() < 0.5}
        rows = []
        for i in range(rng.randint(1, most)):
            row = {each.field_id: constant.get(each.field_id, _draw_value(rng, each.kind)) for each in here}
            rows.append(row | {1: 1000 * number + i})
        parts.append(_make_table(rows, 1, [each.field_id for each in here])[0])
    return parts


def rank_rows(parts: Sequence[pa.Table]) -> list[Ranked]:
    """Return the columns of `draw_rows` for random predicates."""
    rows = pa.concat_tables(parts)
    kinds = {column.new[0]: column for column in COLUMNS if column.new is not None and column.field_id != 1}
    names = [name for name in rows.column_names if name in kinds]
    return [
        Ranked(name, kinds[name].kind, rows[name].type, rows[name].to_pylist(), np.arange(len(rows))) for name in names
    ]

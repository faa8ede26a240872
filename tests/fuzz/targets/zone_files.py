"""Zone indexes with something wrong in them: in Parquet, in Arrow's file and stream format, and as tables in memory.

An input that begins with `PAR1`, `ARROW1` or a stream's mark is used as a file; any other is a recipe. Zones of
Parquet files have a checksum over all but the filters: damage there must not cost a row.
"""

from __future__ import annotations

import io
import json
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from choices import Choices, damaged
from scratch import as_file, folder, one_line
from small_lakes import changed_json
from support.oracle import oracle
from support.writers.zone_tables import INTS, table_of
from wire import Spelled

import parquet_bloom
from parquet_bloom import zones
from parquet_bloom.core.hash.xxh64 import hash_one
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.predicate import parse

ALLOWED = (ParquetBloomError,)
SLICE = 60

_KEY, _CHECKSUM = b"parquet_bloom.zones", b"parquet_bloom.zones.checksum"
_KEYS = [3, 17, 29, 44]
_ROWS = [number * 7919 % 48 for number in range(48)]


@cache
def lake() -> str:
    path = folder() / "zoned.parquet"
    pq.write_table(pa.table({"k": pa.array(_ROWS, pa.int64())}), path, row_group_size=24)
    return str(path)


@cache
def bases() -> list[bytes]:
    """Over a file, in both containers; in Lance's schema alone, in both."""
    results = []
    for ending in ("parquet", "arrow"):
        location = folder() / f"built.{ending}"
        zones.build(lake(), "k", location, rows_per_zone=8, fpp=0.01)
        results.append(location.read_bytes())
    table, _ = table_of(INTS)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    results.append(sink.getvalue())
    stream = io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    results.append(stream.getvalue())
    return results


@cache
def spelled(number: int) -> tuple[bytes, Spelled]:
    data = bases()[number]
    start = oracle.footer_start(data)
    return data[:start], Spelled.of(oracle.read_struct(data, start)[0])


@cache
def tables() -> list[pa.Table]:
    with zones.open(str(folder() / "built.parquet")) as index:
        mine = index.to_table()
    return [mine, table_of(INTS)[0]]


def seeds() -> list[bytes]:
    recipes = [bytes([how, base, *range(3, 20, how + 1)]) for how in range(6) for base in range(4)]
    return [*(base for base in bases()), *recipes]


def run(data: bytes) -> None:
    lake()
    bases()
    if data.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")):
        _open(data, False)
        return
    choices = Choices(data)
    how = choices.below(6)
    if how < 2:
        number = choices.below(4)
        base = bases()[number]
        _open(damaged(base, choices), False)
    elif how == 2:
        body, footer = spelled(choices.pick((0, 2)))
        _open(oracle.with_footer(body, footer.changed(choices)), False)
    elif how == 3:  # what no checksum covers but that of the zones: numbers and manifest
        _open(_with_other_numbers(choices), True)
    elif how == 4:
        ask_zones(_sealed(choices), False)
    else:
        ask_zones(_changed_table(choices), False)


def _with_other_numbers(choices: Choices) -> bytes:
    """Ours, with another number or another word in its manifest, and the checksum that it had."""
    table = tables()[0]
    if choices.below(2):
        document = json.loads(table.schema.metadata[_KEY])
        table = table.replace_schema_metadata({**table.schema.metadata, _KEY: changed_json(document, choices)})
    else:
        at = choices.below(4)
        values = table.column(at).to_pylist()
        row = choices.below(len(values))
        values[row] = not values[row] if at == 3 else choices.odd_number(values[row]) & 2**64 - 1
        table = table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))
    sink = io.BytesIO()
    if choices.below(2):
        pq.write_table(table, sink)
    else:
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    return sink.getvalue()


def _sealed(choices: Choices) -> pa.Table:
    """Ours, with another manifest whose checksum fits."""
    table = tables()[0]
    document = changed_json(json.loads(table.schema.metadata[_KEY]), choices)
    columns = [np.ascontiguousarray(table.column(name).to_numpy()).tobytes() for name in table.schema.names[:4]]
    checksum = b"%016x" % hash_one(b"".join([document, *columns]))
    return table.replace_schema_metadata({**table.schema.metadata, _KEY: document, _CHECKSUM: checksum})


def _changed_table(choices: Choices) -> pa.Table:
    table = choices.pick(tables())
    at = choices.below(table.num_columns)
    field, values = table.schema.field(at), table.column(at).to_pylist()
    how = choices.below(6)
    row = choices.below(len(values))
    if how == 0:
        return table.remove_column(at)
    if how == 1:
        key = choices.pick(sorted(table.schema.metadata))
        odd = choices.pick((b"", b"nan", b"-1", b"1e400", b"0", b"99999999999999999999", b"\xff", choices.take(8)))
        return table.replace_schema_metadata({**table.schema.metadata, key: odd})
    if how == 2:
        values[row] = None
    elif how == 3 and at == 4:
        values[row] = choices.take(choices.below(80))
    elif at < 3:
        values[row] = choices.odd_number(values[row]) & 2**64 - 1
    target = choices.pick((pa.int8(), pa.string(), pa.null(), pa.uint64())) if how == 5 else field.type
    try:
        column = pa.array(values, field.type).cast(target)
    except (pa.ArrowException, OverflowError):
        column = pa.nulls(len(values), target)
    return table.set_column(at, field.name, column)


def ask_zones(source: Any, exact: bool) -> None:
    try:
        with zones.open(source) as index:
            for value in (*_KEYS, None, "x"):
                index.equals(value)
            if index.fragments is not None:
                index.of_file(lake())
                node = parse(f"k = {_KEYS[len(index) % 4]}")
                report = parquet_bloom.prune(lake(), node, zones=index)
                if exact:
                    _require(report, _KEYS[len(index) % 4])
            else:
                index.to_table()
    except ParquetBloomError as error:
        one_line(error)


def _open(data: bytes, exact: bool) -> None:
    with as_file(data, ".zones") as path:
        ask_zones(path, exact)
        if exact:
            key = _KEYS[len(data) % 4]
            _require(parquet_bloom.prune(lake(), parse(f"k = {key}"), zones=path), key)


def _require(report: Any, key: int) -> None:
    """That a key's row is selected, and no zone has left it out."""
    row = _ROWS.index(key)
    for file in report.files:
        for decided in file.row_groups:
            if decided.row_group == row // 24:
                assert decided.read, f"k = {key}: its row group is lost: {report}"
                spans = decided.rows
                assert spans is None or any(start <= row % 24 < stop for start, stop in spans), f"k = {key} is lost"

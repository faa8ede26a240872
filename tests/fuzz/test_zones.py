"""Zone indexes with something wrong in them: in Parquet, in Arrow's file and stream format, and as tables in memory.

Zones of Parquet files have a checksum over all but the filters: damage there must not cost a row.
"""

from __future__ import annotations

import io
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent))

from changes import Spelled, changed_json
from fuzzing import Choices, as_file, folder, fuzz, one_line
from support.oracle import oracle
from support.writers.zone_tables import INTS, table_of

import parquet_bloom
from parquet_bloom import zones
from parquet_bloom.core.hash.xxh64 import hash_one
from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.predicate import parse

MANIFEST, CHECKSUM = b"parquet_bloom.zones", b"parquet_bloom.zones.checksum"
KEYS = [3, 17, 29, 44]
ROWS = [number * 7919 % 48 for number in range(48)]


@cache
def lake() -> str:
    path = folder() / "zoned.parquet"
    pq.write_table(pa.table({"k": pa.array(ROWS, pa.int64())}), path, row_group_size=24)
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
    sink, stream = io.BytesIO(), io.BytesIO()
    pq.write_table(table, sink)
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    return [*results, sink.getvalue(), stream.getvalue()]


@cache
def tables() -> list[pa.Table]:
    bases()
    with zones.open(str(folder() / "built.parquet")) as index:
        mine = index.to_table()
    return [mine, table_of(INTS)[0]]


def good_zones() -> list[bytes]:
    return [*bases(), *(bytes([how, base, *range(3, 20, how + 1)]) for how in range(6) for base in range(4))]


@fuzz(ParquetBloomError, recipes=good_zones, examples=15)
def test_zone_files(data: bytes) -> None:
    """An input is a file, or what is done to a good file or table."""

    def require(report: Any, key: int) -> None:
        """That a key's row is selected, and no zone has left it out."""
        row = ROWS.index(key)
        for file in report.files:
            for decided in file.row_groups:
                if decided.row_group == row // 24:
                    assert decided.read, f"k = {key}: its row group is lost: {report}"
                    spans = decided.rows
                    is_there = spans is None or any(start <= row % 24 < stop for start, stop in spans)
                    assert is_there, f"k = {key} is lost"

    def ask(source: Any, is_exact: bool) -> None:
        try:
            with zones.open(source) as index:
                for value in (*KEYS, None, "x"):
                    index.equals(value)
                if index.fragments is None:
                    index.to_table()
                else:
                    index.of_file(lake())
                    key = KEYS[len(index) % 4]
                    report = parquet_bloom.prune(lake(), parse(f"k = {key}"), zones=index)
                    if is_exact:
                        require(report, key)
        except ParquetBloomError as error:
            one_line(error)

    def open_file(content: bytes, is_exact: bool = False) -> None:
        with as_file(content, ".zones") as path:
            ask(path, is_exact)
            if is_exact:
                key = KEYS[len(content) % 4]
                require(parquet_bloom.prune(lake(), parse(f"k = {key}"), zones=path), key)

    def odd_values(values: list[Any], row: int, at: int) -> None:
        values[row] = not values[row] if at == 3 else choices.odd_number(values[row]) & 2**64 - 1

    lake()
    if data.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")):
        open_file(data)
        return
    choices = Choices(data)
    how = choices.below(6)
    if how < 2:
        open_file(choices.damage(choices.pick(bases())))
    elif how == 2:
        base = bases()[choices.pick((0, 2))]
        start = oracle.footer_start(base)
        footer = Spelled.of(oracle.read_struct(base, start)[0])
        open_file(oracle.with_footer(base[:start], footer.changed(choices)))
    elif how == 3:  # another number or another word in the manifest, and the checksum that it had
        table = tables()[0]
        if choices.below(2):
            manifest = changed_json(json.loads(table.schema.metadata[MANIFEST]), choices)
            table = table.replace_schema_metadata({**table.schema.metadata, MANIFEST: manifest})
        else:
            at = choices.below(4)
            values = table.column(at).to_pylist()
            odd_values(values, choices.below(len(values)), at)
            table = table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))
        sink = io.BytesIO()
        if choices.below(2):
            pq.write_table(table, sink)
        else:
            with pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
        open_file(sink.getvalue(), True)
    elif how == 4:  # another manifest whose checksum fits
        table = tables()[0]
        manifest = changed_json(json.loads(table.schema.metadata[MANIFEST]), choices)
        columns = [np.ascontiguousarray(table.column(name).to_numpy()).tobytes() for name in table.schema.names[:4]]
        checksum = b"%016x" % hash_one(b"".join([manifest, *columns]))
        ask(table.replace_schema_metadata({**table.schema.metadata, MANIFEST: manifest, CHECKSUM: checksum}), False)
    else:
        table = choices.pick(tables())
        at, what = choices.below(table.num_columns), choices.below(6)
        field, values = table.schema.field(at), table.column(at).to_pylist()
        row = choices.below(len(values))
        if what == 0:
            ask(table.remove_column(at), False)
            return
        if what == 1:
            key = choices.pick(sorted(table.schema.metadata))
            texts = b"", b"nan", b"-1", b"1e400", b"0", b"99999999999999999999", b"\xff", choices.take(8)
            ask(table.replace_schema_metadata({**table.schema.metadata, key: choices.pick(texts)}), False)
            return
        if what == 2:
            values[row] = None
        elif what == 3 and at == 4:
            values[row] = choices.take(choices.below(80))
        elif at < 3:
            odd_values(values, row, at)
        target = choices.pick((pa.int8(), pa.string(), pa.null(), pa.uint64())) if what == 5 else field.type
        try:
            column = pa.array(values, field.type).cast(target)
        except (pa.ArrowException, OverflowError):
            column = pa.nulls(len(values), target)
        ask(table.set_column(at, field.name, column), False)

"""Measure the cost of filters per value while writing: pyarrow's `bloom_filter_options` against our embedding step.

Times are CPU times of the whole process. The cost of filters of pyarrow and of our `write_table` is the difference to
writing the same table without filters (plain pages, uncompressed, so that the difference is significant). Our step is
also measured alone: hashing, counting the distinct hashes, sizing and filling, as in
`parquet_bloom.file.filter_builder`, against just inserting the same values into a filter of that size.

python tools/bench/embedding_cost.py [--output FILE]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from _common import header, in_turn
from _keys import make
from _results import record

import parquet_bloom
from parquet_bloom.core.bloom.distinct import HashSet
from parquet_bloom.core.bloom.sbbf import insert_keys
from parquet_bloom.core.hash.xxh64 import hash_keys
from parquet_bloom.file.filter_builder import PIECE_ROWS, FilterBuilder, FilterOptions
from parquet_bloom.hashing.arrow_keys import keys_of, to_storage, type_of

ROW_GROUP = 1_048_576
ROW_GROUPS = 2
ROWS = ROW_GROUP * ROW_GROUPS
FPP = 0.01
TARGET = 3  # times the bare insertion
REPEAT = 11
PLAIN = {"use_dictionary": False, "compression": "NONE", "write_statistics": False}


def make_array(kind: str, distinct: int) -> pa.Array:
    """Make ROWS random values, with `distinct` distinct ones in a row group."""
    keys = make(kind, distinct, seed=3).repeated(distinct, ROWS)
    if keys.offsets is None:
        return pa.array(keys.values)
    return pa.StringArray.from_buffers(ROWS, pa.py_buffer(keys.offsets), pa.py_buffer(keys.values))


def measure(kind: str, distinct: int, folder: Path) -> None:
    values = make_array(kind, distinct)
    table = pa.table({"key": values})
    column_type = type_of(values)
    groups = [to_storage(values.slice(i * ROW_GROUP, ROW_GROUP), column_type) for i in range(ROW_GROUPS)]
    options = FilterOptions(FPP)
    plain, theirs, ours = (folder / f"{name}.parquet" for name in ("plain", "theirs", "ours"))
    filters = {"key": {"ndv": distinct, "fpp": FPP}}

    builder = FilterBuilder()  # one for many row groups, as in `embed`
    counted = HashSet()

    def build() -> list[parquet_bloom.SplitBlockBloomFilter]:
        return [builder.build([group], column_type, options, ROW_GROUP).filter for group in groups]

    scratch = [parquet_bloom.SplitBlockBloomFilter(filter.num_bytes) for filter in build()]
    hashes = [hash_keys(keys_of(group)) for group in groups]

    def insert() -> None:
        for filter, group in zip(scratch, groups, strict=True):
            insert_keys(filter, keys_of(group))

    def count() -> None:
        for some in hashes:
            counted.clear(ROW_GROUP)
            for start in range(0, ROW_GROUP, PIECE_ROWS):
                counted.add(some[start : start + PIECE_ROWS])
            len(counted)

    seconds = in_turn(
        {
            "pyarrow, no filter": lambda: pq.write_table(table, plain, row_group_size=ROW_GROUP, **PLAIN),
            "pyarrow, filter": lambda: pq.write_table(
                table, theirs, row_group_size=ROW_GROUP, bloom_filter_options=filters, **PLAIN
            ),
            "ours, filter": lambda: parquet_bloom.write_table(
                table, ours, ["key"], fpp=FPP, row_group_size=ROW_GROUP, **PLAIN
            ),
            "build": build,
            "hash": lambda: [hash_keys(keys_of(group)) for group in groups],
            "count": count,
            "insert": insert,
        },
        repeat=REPEAT,
        clock=time.process_time,
    )
    cost = {name: 1e9 * taken / ROWS for name, taken in seconds.items()}
    compare(kind, theirs, ours)
    base = cost["pyarrow, no filter"]
    print(f"{kind}, {distinct:,} distinct values a row group, filters of {scratch[0].num_bytes:,} bytes: ns a value")
    print(f"  write_table without filters    {base:7.1f}")
    print(f"  pyarrow's filters add          {cost['pyarrow, filter'] - base:7.1f}")
    print(f"  ours add (our write_table)     {cost['ours, filter'] - base:7.1f}")
    print(f"  FilterBuilder                  {cost['build']:7.1f}")
    print(f"    hash alone                   {cost['hash']:7.1f}")
    print(f"  for comparison: HashSet alone  {cost['count']:7.1f}")
    print(f"  bare insertion                 {cost['insert']:7.1f}")
    ratio = cost["build"] / cost["insert"]
    verdict = "ok" if ratio <= TARGET else "SHORT"
    print(f"  FilterBuilder / bare insertion  {ratio:7.1f}   (asked: at most {TARGET}) {verdict}")
    print(f"  pyarrow's cost / FilterBuilder {(cost['pyarrow, filter'] - base) / cost['build']:7.1f}\n")


def compare(kind: str, theirs: Path, ours: Path) -> None:
    """Check that both ways give the same filters: bits may differ only if the sizes do, which is printed."""
    with parquet_bloom.open(theirs) as first, parquet_bloom.open(ours) as second:
        for other, mine in zip(first.chunks(), second.chunks(), strict=True):
            if mine.filter.num_bytes != other.filter.num_bytes:
                print(f"note: pyarrow's filter of {kind} has {other.filter.num_bytes:,} bytes")
            elif mine.filter != other.filter:
                raise SystemExit(f"pyarrow's filter of {kind} has other bits than ours")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="file of results in which to replace the part of this benchmark")
    options = parser.parse_args()
    with ExitStack() as stack:
        stack.enter_context(record(options.output, "embedding_cost"))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        header(
            "the cost of a filter while a file is written",
            f"peer     pyarrow {pa.__version__}: write_table(bloom_filter_options=...)",
            f"data     {ROW_GROUPS} row groups of {ROW_GROUP:,} values, fpp {FPP}",
            f"times    CPU of the process, medians of {REPEAT} runs in turn",
        )
        for kind in ("int64", "36-byte"):
            for distinct in (ROW_GROUP, 10_000):
                measure(kind, distinct, folder)


if __name__ == "__main__":
    main()

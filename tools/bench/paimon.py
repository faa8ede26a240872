"""Random ids in a Paimon table, by pypaimon and by PaimonLake: the reader of the table's users against ours, in turn.

python tools/bench/paimon.py [--files N] [--rows N] [--repeat N]

It runs where pypaimon is: `bash tools/adapters.sh` makes .cache/paimon, whose Python is the one to use. One table is of
files with random ids, one has a primary key and was updated, so that all its splits are merged. Each lookup is of 1, 10
or 1,000 other ids that are there, and has to find their rows; the first call is of one id, by an object that was made
for it. Filters cannot be embedded into files of such tables; an index lies beside them.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import itertools
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pypaimon
from _common import header, in_turn, positive

import parquet_bloom
from parquet_bloom.adapters import PaimonLake

SHAPES = [1, 10, 1000]
COLUMNS = ["id", "value", "text"]

Way = Callable[[list[int]], int]
"""Looks for ids, and returns the number of rows."""


def make_table(catalog: Any, name: str, parts: Iterator[pa.Table], **settings: Any) -> Any:
    """Write a table, a commit for each part."""
    table = None
    for part in parts:
        if table is None:
            catalog.create_table(name, pypaimon.Schema.from_pyarrow_schema(part.schema, **settings), False)
            table = catalog.get_table(name)
        builder = table.new_batch_write_builder()
        writer, committer = builder.new_write(), builder.new_commit()
        writer.write_arrow(part)
        committer.commit(writer.prepare_commit())
        writer.close()
        committer.close()
    return table


def make_part(ids: np.ndarray, dice: np.random.Generator) -> pa.Table:
    texts = [f"event {id}" for id in ids.tolist()]
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("value", pa.float64()), ("text", pa.string())])
    return pa.table({"id": ids, "value": dice.random(len(ids)), "text": texts}, schema)


def by_pypaimon(table: Any) -> Way:
    def look(ids: list[int]) -> int:
        builder = table.new_read_builder()
        predicates = builder.new_predicate_builder()
        found = predicates.equal("id", ids[0]) if len(ids) == 1 else predicates.is_in("id", ids)
        builder = builder.with_projection(COLUMNS).with_filter(found)
        return int(builder.new_read().to_arrow(builder.new_scan().plan().splits()).num_rows)

    return look


def by_lake(table: Any, index: parquet_bloom.LakeIndex | None = None) -> Way:
    lake = PaimonLake(table, index=index)
    return lambda ids: lake.read([("id", "in", ids)], COLUMNS).num_rows


def _name_shape(number: int) -> str:
    return f"{number:,} id{'s' * (number > 1)}"


def compare(name: str, ways: dict[str, Callable[[], Way]], ids: Iterator[int], repeat: int) -> None:
    """Time ways, each with other ids every time; print the first call, medians, and ratios to the first way."""
    asked = [next(ids)]
    made: dict[str, Way] = {}

    def make_run(label: str) -> Callable[[], None]:
        def run() -> None:
            if label not in made:
                made[label] = ways[label]()
            found = made[label](asked)
            if found != len(asked):
                raise SystemExit(f"{name}, {label}: {found} of {len(asked)} ids were found")

        return run

    runs = {label: make_run(label) for label in ways}
    columns = [in_turn(runs, 1)]
    for number in SHAPES:

        def take(number: int = number) -> None:
            asked[:] = itertools.islice(ids, number)

        columns.append(in_turn(runs, repeat, before=take))
    print(f"{name}; seconds, medians of {repeat} runs in turn")
    print(f"  {'':<36}{'first call':>12}" + "".join(f"{_name_shape(number):>12}" for number in SHAPES))
    base = next(iter(runs))
    for label in runs:
        print(f"  {label:<36}" + "".join(f"{times[label]:12.3f}" for times in columns))
        if label != base:
            print(f"  {'    times faster':<36}" + "".join(f"{times[base] / times[label]:12.1f}" for times in columns))
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=positive, default=100)
    parser.add_argument("--rows", type=positive, default=50_000, help="of each file")
    parser.add_argument("--repeat", type=positive, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # pypaimon's own, of a pyarrow that is newer than it knows
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("pypaimon", "pyarrow"))
    header("random ids in a Paimon table, by pypaimon and by PaimonLake", f"peers    {versions}")
    dice = np.random.default_rng(20)
    rows = options.files * options.rows
    with tempfile.TemporaryDirectory(prefix="bench paimon ") as home:
        catalog = pypaimon.CatalogFactory.create({"warehouse": home})
        catalog.create_database("db", False)
        all_ids = dice.permutation(rows * 4)[:rows]
        parts = (make_part(ids, dice) for ids in np.split(all_ids, options.files))
        table = make_table(catalog, "db.appended", parts)
        index = Path(home) / "index"
        with parquet_bloom.LakeIndex.create(index, ["id"]) as made:
            made.append(PaimonLake(table).files)
        size = sum(path.stat().st_size for path in Path(home).rglob("*.parquet")) / 1e6
        print(f"appended  {options.files} files of {options.rows:,} rows, {size:,.0f} MB, in memory")
        few = rows // 20
        parts = (make_part(ids, dice) for ids in (np.sort(all_ids[:few]), np.sort(all_ids[: few // 10])))
        merged = make_table(catalog, "db.merged", parts, primary_keys=["id"], options={"bucket": "4"})
        print(f"merged    {few:,} rows in 4 buckets, a tenth of them updated")
        print()
        ways: dict[str, Callable[[], Way]] = {
            "pypaimon, with_filter": lambda: by_pypaimon(table),
            "PaimonLake": lambda: by_lake(table),
            "PaimonLake, with an index": lambda: by_lake(table, parquet_bloom.LakeIndex.open(index)),
        }
        compare("appended", ways, iter(dice.permutation(all_ids).tolist()), options.repeat)
        ways = {"pypaimon, with_filter": lambda: by_pypaimon(merged), "PaimonLake": lambda: by_lake(merged)}
        compare("merged", ways, iter(dice.permutation(all_ids[:few]).tolist()), 3 * options.repeat)


if __name__ == "__main__":
    main()

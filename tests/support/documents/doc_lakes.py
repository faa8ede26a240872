"""The folders that examples of the pages run in: a function a name (see `doc_blocks`), called in an empty folder."""

from __future__ import annotations

import datetime as dt
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

import parquet_bloom
from support.writers import drafts

ROWS = 20_000  # a file, in two row groups
DAYS = ("2026-01-30", "2026-01-31")


def lake(folder: Path) -> None:
    """`lake/`: two days of two files, no filters, with page indexes.

    `id` and `request` are random, `ts` is sorted, `country` has five values; pages hold a thousand
    rows, and nothing is compressed, since column chunks of less than 64 KiB are not read by pages.
    """
    for number in range(2 * len(DAYS)):
        path = folder / "lake" / f"day={DAYS[number // 2]}" / f"{'ab'[number % 2]}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            _events(number * ROWS),
            path,
            row_group_size=ROWS // 2,
            compression="none",
            use_dictionary=["country"],
            write_page_index=True,
            data_page_size=1,  # a page a batch
            write_batch_size=1000,
        )


def filtered(folder: Path) -> None:
    """Write the lake with filters on `id`."""
    lake(folder)
    for path in sorted(folder.glob("lake/*/*.parquet")):
        parquet_bloom.embed(path, ["id"], fpp=0.001)


def old(folder: Path) -> None:
    """`old.parquet`: two row groups, with filters of the first draft on `id` and `name`."""
    numbers = [number * 2_654_435_761 % 1_000_000 for number in range(2_000)]
    table = pa.table({"id": pa.array(numbers, pa.int64()), "name": [f"n{number}" for number in numbers]})
    options = {"row_group_size": 1_000, "num_bytes": 2048, "compression": "none", "use_dictionary": False}
    drafts.write_draft(folder / "old.parquet", table, ["id", "name"], "murmur3+mask+raw", **options)


def orcs(folder: Path) -> None:
    """`lake/`: two ORC files as pyarrow writes them, of two stripes of four row groups each.

    `id` and `request` are random, `ts` is sorted, `country` has five values, `rank` is a tinyint. There are filters
    on `id` and `rank`, at pyarrow's default fpp of 0.05.
    """
    (folder / "lake").mkdir()
    for number in range(2):
        events = _events(number * ROWS)
        ranks = pa.array([value % 100 for value in events["id"].to_pylist()], pa.int8())
        orc.write_table(
            events.append_column("rank", ranks),
            folder / "lake" / f"{'ab'[number]}.orc",
            batch_size=ROWS // 2,
            stripe_size=1,  # a stripe a batch
            row_index_stride=ROWS // 8,
            bloom_filter_columns=[1, 5],
        )


def _events(first: int) -> pa.Table:
    numbers = range(first, first + ROWS)
    ids = [number * 2_654_435_761 % 2**31 for number in numbers]
    noon = dt.datetime(2026, 1, 30, tzinfo=dt.UTC)
    seconds = [noon + dt.timedelta(seconds=number) for number in numbers]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "request": [str(uuid.UUID(int=(number << 64) * 0x9E3779B97F4A7C15 % 2**128)) for number in ids],
            "ts": pa.array(seconds, pa.timestamp("us", "UTC")),
            "country": [("de", "fr", "it", "pl", "se")[number % 5] for number in ids],
        }
    )


def docstrings(folder: Path) -> None:
    """Write the lake with filters, and the table, for the examples of docstrings."""
    filtered(folder)
    table(folder)


def table(folder: Path) -> None:
    """`events/`: a Delta table of three versions: two days are appended, then a row is changed."""
    import deltalake  # the pages that need it are few, and it takes a while to import

    for number, day in enumerate(DAYS):
        rows = pa.table(
            {"user": range(1000 * number, 1000 * number + 1000), "day": [day] * 1000, "text": ["new"] * 1000}
        )
        deltalake.write_deltalake(folder / "events", rows, mode="append")
    deltalake.DeltaTable(folder / "events").update({"text": "'changed'"}, predicate='"user" = 7')

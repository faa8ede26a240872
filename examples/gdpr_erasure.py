"""Erase people from a lake: find all their rows, and rewrite only the files that have one. Read it from top to bottom.

    python examples/gdpr_erasure.py [FOLDER]

1. a lake of events of many users, and an index over it by user and by e-mail address in lower case
2. who is to be erased: some by their user id, some by an address, however that was written
3. `locate`: the physical positions of all their rows
4. the files concerned, written anew without these rows, each replaced in one step; then the index
5. the proof: `locate` finds no row of theirs, a scan of all files finds none, and no other row is missing

FOLDER keeps what is made; without it a temporary one is used. Needs nothing but `pip install parquet-bloom`. In a Delta
or Iceberg table, a commit takes the place of step 4: the table's own DELETE, or position deletes. Old versions of the
files stay in its history until that is vacuumed or expired.

`erase` is for Parquet files on a local disk that nobody else writes meanwhile, Spark's among them. A new file has the
types, codecs, row groups, metadata and filtered columns of the old one. pyarrow cannot write everything so: lists of
two levels (Spark's legacy format), INT96 beside timestamps of another type, INT96 that another writer than Spark wrote,
and the like. Such a file is left as it is, and the error names its column: erase its rows by its own engine.
"""

import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq

import parquet_bloom

FILES, ROWS, USERS = 60, 10_000, 50_000
KEYS = ["user", "lower(email)"]


def write_lake(lake: Path) -> None:
    dice = random.Random(2026)
    lake.mkdir(parents=True)
    for number in range(FILES):
        # A session's events are in one file, mostly: a user is in few of the files.
        users = [dice.randrange(USERS // FILES) + number * (USERS // FILES) for _ in range(ROWS - 20)]
        users += [dice.randrange(USERS) for _ in range(20)]
        events = pa.table(
            {
                "user": users,
                "email": [dice.choice([str.lower, str.title])(f"user{user}@example.org") for user in users],
                "amount": [dice.randrange(10_000) for _ in users],
            }
        )
        pq.write_table(events, lake / f"{number:03d}.parquet", row_group_size=2_500)


def locate(lake: Path, index: Path, users: list[int], emails: list[str]) -> pa.Table:
    """Return path, row group and row of all rows of these users and addresses."""
    dataset = parquet_bloom.dataset(lake, index=index)
    addresses = "lower(email) IN ({})".format(", ".join(f"'{email.lower()}'" for email in emails))
    # Addresses lead to users: whoever wrote one of them has other rows under another address.
    users = sorted({*users, *dataset.scan(addresses, ["user"]).to_arrow().column("user").to_pylist()})
    return dataset.locate("user", users)


def erase(path: Path, rows: np.ndarray) -> None:
    """Write a file without some rows (their numbers in the file), and put it in the old one's place in one step.

    Raises ValueError for a file that pyarrow cannot write anew as it was.
    """
    new = path.with_name(f".{path.name}.new")  # a hidden name, so that no reader takes it for a file of the lake
    try:
        with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as old:  # nanoseconds end in 2262, Spark's do not
            write_without(old, rows, new)
            with pq.ParquetFile(new) as written:
                refuse_changes(path, describe(old), describe(written))
        with parquet_bloom.open(path) as file:
            filtered = {chunk.column for chunk in file.chunks()}
        if filtered:
            parquet_bloom.embed(new, sorted(filtered))
        shutil.copymode(path, new)
        # Spark compares a file with the checksums that it stored beside it, and cannot read it if they are of another
        # one. Without them it reads either file.
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def write_without(old: pq.ParquetFile, rows: np.ndarray, new: Path) -> None:
    """Write the other rows of a file into a new one, row group by row group, in the types and codecs of the old one."""
    keep = np.ones(old.metadata.num_rows, bool)
    keep[rows] = False
    columns = [old.schema.column(number) for number in range(len(old.schema))]
    types = {column.physical_type for column in columns if column.logical_type.type == "DECIMAL"}
    groups = [old.metadata.row_group(number) for number in range(old.num_row_groups)]
    chunks = [groups[0].column(number) for number in range(len(columns))] if groups else []
    codecs = {chunk.path_in_schema: chunk.compression for chunk in chunks}
    with pq.ParquetWriter(
        new,
        old.schema_arrow,
        compression={name: "NONE" if codec == "UNCOMPRESSED" else codec for name, codec in codecs.items()},
        use_deprecated_int96_timestamps=any(column.physical_type == "INT96" for column in columns),
        store_decimal_as_integer=not types.isdisjoint({"INT32", "INT64"}),
        store_schema=False,  # the old one is in the metadata, if there is one
        write_page_index=any(chunk.has_column_index for chunk in chunks),
    ) as writer:
        writer.add_key_value_metadata(old.metadata.metadata or {})
        start = 0
        for number, group in enumerate(groups):
            kept = old.read_row_group(number).filter(pa.array(keep[start : start + group.num_rows]))
            start += group.num_rows
            if kept.num_rows:
                writer.write_table(kept, row_group_size=kept.num_rows)


def describe(file: pq.ParquetFile) -> dict[str, str]:
    """Return how the values of each column are stored; all engines have to find them as they were."""
    described = {}
    for number in range(len(file.schema)):
        column = file.schema.column(number)
        levels = f"levels {column.max_definition_level} and {column.max_repetition_level}"
        described[column.path] = f"{column.physical_type}, {column.logical_type}, {levels}, {column.length} bytes"
        if column.physical_type == "INT96" and b"org.apache.spark.version" not in (file.metadata.metadata or {}):
            described[column.path] += ", maybe nanoseconds"  # which are cut off when they are read as microseconds
    return described


def refuse_changes(path: Path, old: dict[str, str], new: dict[str, str]) -> None:
    """Raise ValueError if a new file does not store its columns as the old one did."""
    for column in [*old, *new]:
        if old.get(column) != new.get(column) or "maybe nanoseconds" in old[column]:
            problem = f"pyarrow would write it as ({new.get(column)}) in place of ({old.get(column)})"
            raise ValueError(f"{path}: column '{column}': {problem}; the file is left as it was")


def main(folder: Path) -> None:
    lake, index = folder / "events", folder / "users.index"
    print(f"1. a lake: {FILES} files, {FILES * ROWS:,} rows")
    write_lake(lake)
    for file in sorted(lake.glob("*.parquet")):
        parquet_bloom.embed(file, ["user"])
    with parquet_bloom.LakeIndex.create(index, KEYS, lake=lake) as opened:
        print(f"   {opened.append()}")

    users, emails = [4_711, 31_415], ["USER27182@example.ORG"]
    print(f"2. to be erased: users {users}, and {emails[0]}")

    positions = locate(lake, index, users, emails)
    by_file = {path.as_py(): positions.filter(pc.equal(positions["path"], path)) for path in positions["path"].unique()}
    print(f"3. {positions.num_rows} rows in {len(by_file)} of {FILES} files, such as")
    print(f"   {positions.slice(0, 1).to_pylist()[0]}")

    print(f"4. {len(by_file)} files are written anew")
    for path, rows in by_file.items():
        erase(Path(path), rows["row"].to_numpy())
    with parquet_bloom.LakeIndex.open(index) as opened:
        print(f"   {opened.append()}")

    left = locate(lake, index, users, emails).num_rows
    everything = pyarrow.dataset.dataset(lake)
    theirs = everything.to_table(filter=pc.field("user").isin([*users, 27_182])).num_rows
    print(f"5. rows of theirs: {left} by the index, {theirs} in all files; other rows: {everything.count_rows():,}")
    if left or theirs or everything.count_rows() + positions.num_rows != FILES * ROWS:
        raise SystemExit("rows are left, or missing")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory(prefix="events ") as name:
            main(Path(name))

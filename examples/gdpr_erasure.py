"""Erase people from a lake: find all their rows, and rewrite only the files that have one. Read it from top to bottom.

    python examples/gdpr_erasure.py [FOLDER]

1. a lake of events of many users, and an index over it by user and by e-mail address in lower case
2. who is to be erased: some by their user id, some by an address, however that was written
3. `locate`: the physical positions of all their rows
4. the files concerned, written anew without these rows, each replaced in one step; then filters, and the index
5. the proof: `locate` finds no row of theirs, a scan of all files finds none, and no other row is missing

FOLDER keeps what is made; without it a temporary one is used. Needs nothing but `pip install parquet-bloom`. In a Delta
or Iceberg table, a commit takes the place of step 4: the table's own DELETE, or position deletes. Old versions of the
files stay in its history until that is vacuumed or expired.
"""

import os
import random
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
    """Write a file without some rows (their numbers in the file), and put it in the old one's place in one step."""
    parquet = pq.ParquetFile(path)
    keep = np.ones(parquet.metadata.num_rows, bool)
    keep[rows] = False
    new = path.with_name(f".{path.name}.new")  # a hidden name, so that no reader takes it for a file of the lake
    row_group_size = parquet.metadata.row_group(0).num_rows
    parquet_bloom.write_table(parquet.read().filter(pa.array(keep)), new, ["user"], row_group_size=row_group_size)
    os.replace(new, path)


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

"""The lakes of the benchmark of shapes: made once, a file being a function of its number, and reused by later runs.

All have filters on `id` and `uuid`, or on what their queries look up, of the same false-positive probability.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _lake import texts, uuids

import parquet_bloom

FPP = 0.001
IDS = 2**62  # ids are below it
TAGS = 2**40  # elements of lists are below it
SPANS = 100  # values of `g`, and of `country`
_RECIPE = 1  # version of the content: increase it to make existing lakes again
_SEED = 14
_FIRST_TS = 1_700_000_000_000_000
_STEP = 1_000  # mean distance of `ts` from row to row
_SAMPLES = 4_000  # rows of a lake that queries choose from
_SMALL_PAGES = 16 * 1024
_WIDE = 299  # columns besides the five of all lakes
_USERS = 1_000  # distinct values of `user` in a row group


@dataclass(frozen=True)
class Lake:
    """A lake: `files` files of `row_groups` row groups of `rows` rows.

    Attributes
    ----------
    content : what it has besides `id`, `uuid`, `g`, `v` and `ts`: "plain", "payload", "wide", "list" or "dictionary".
    pages : whether pages are small, and have an index.
    """

    name: str
    title: str
    files: int
    row_groups: int
    rows: int
    content: str = "plain"
    pages: bool = False

    @property
    def filtered(self) -> list[str]:
        """Columns with filters."""
        return {"list": ["id", "tags.list.element"], "dictionary": ["id", "user"]}.get(self.content, ["id", "uuid"])

    @property
    def rows_in_all(self) -> int:
        return self.files * self.row_groups * self.rows

    def made_smaller(self) -> Lake:
        """Return the lake with a tenth of its files; of its row groups, or else of their rows, if there are few."""
        title = f"{self.title}, a tenth"
        changes: dict[str, Any] = {"files": self.files // 10}
        if self.files < 100:
            changes = {"row_groups": self.row_groups // 10} if self.row_groups >= 100 else {"rows": self.rows // 10}
        return Lake(**{**asdict(self), "title": title, **changes})

    def folder(self, home: Path) -> Path:
        """Return the folder of the lake, whose name changes with its content."""
        recipe = json.dumps([asdict(self) | {"title": ""}, _RECIPE, FPP, _WIDE, _USERS], sort_keys=True)
        return home / f"{self.name}-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"

    def data(self, home: Path) -> Path:
        """Return the folder of the Parquet files, and nothing else."""
        return self.folder(home) / "data"

    def paths(self, home: Path) -> list[Path]:
        return [self.data(home) / f"part-{number:05}.parquet" for number in range(self.files)]

    def samples(self, home: Path) -> list[dict[str, Any]]:
        """Return rows of the lake to look up."""
        rows: list[dict[str, Any]] = json.loads((self.folder(home) / "complete.json").read_text())["samples"]
        return rows

    def is_complete(self, home: Path) -> bool:
        """Return whether the lake exists, with the original size of each file, and no other files."""
        try:
            sizes = json.loads((self.folder(home) / "complete.json").read_text())["sizes"]
            names = os.listdir(self.data(home))
            return len(names) == self.files and sizes == [path.stat().st_size for path in self.paths(home)]
        except (OSError, ValueError, KeyError):
            return False

    def make(self, home: Path) -> None:
        """Make the lake, unless it is complete. It appears in one step, so that others may make it at the same time."""
        if self.is_complete(home):
            return
        home.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(self.folder(home), ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=home, prefix=f".{self.name}-") as folder:
            made = Path(folder, "lake")
            (made / "data").mkdir(parents=True)
            with ProcessPoolExecutor(min(os.cpu_count() or 1, self.files), get_context("spawn")) as pool:
                parts = list(pool.map(partial(_make_file, self, made), range(self.files), chunksize=4))
            state = {"sizes": [size for size, _ in parts], "samples": [row for _, rows in parts for row in rows]}
            (made / "complete.json").write_text(json.dumps(state))
            try:
                made.rename(self.folder(home))
            except OSError:
                if not self.is_complete(home):
                    raise

    def table(self, number: int) -> pa.Table:
        """Return the rows of a file."""
        rng = np.random.default_rng([_SEED, number, self.files, self.rows])
        count = self.row_groups * self.rows
        stamps = _FIRST_TS + number * count * _STEP + np.cumsum(rng.integers(1, 2 * _STEP - 1, count))
        columns: dict[str, Any] = {
            "id": rng.integers(0, IDS, count),
            "g": rng.integers(0, SPANS, count),
            "v": rng.random(count),
            "ts": stamps,
        }
        if self.content in ("plain", "payload", "wide"):
            columns["uuid"] = texts(uuids(rng, count))
        if self.content == "payload":
            columns["payload"] = texts(uuids(rng, count))
        if self.content == "list":
            columns["tags"] = _lists(rng, count)
        if self.content == "dictionary":
            columns |= _dictionaries(rng, self.row_groups, self.rows)
        if self.content == "wide":
            columns |= _many_columns(rng, count)
        return pa.table(columns)


LAKES = (
    Lake("many", "3,000 files of 2,000 rows", 3_000, 1, 2_000),
    Lake("groups", "1 file, 200 row groups of 5,000", 1, 200, 5_000),
    Lake("large", "12 files, 8 row groups of 50,000", 12, 8, 50_000),
    Lake("wide", "20 files, 304 columns", 20, 2, 5_000, "wide"),
    Lake("lookup", "300 files, 4 row groups of 5,000", 300, 4, 5_000, "payload", pages=True),
    Lake("files", "10,000 files of 500 rows", 10_000, 1, 500),
    Lake("lists", "20 files of lists, 5 row groups of 10,000", 20, 5, 10_000, "list"),
    Lake("pages", "1 file, 1,000 row groups of 2,000, page index", 1, 1_000, 2_000, pages=True),
    Lake("texts", "20 files of dictionaries, 5 row groups of 20,000", 20, 5, 20_000, "dictionary"),
)


def _make_file(lake: Lake, folder: Path, number: int) -> tuple[int, list[dict[str, Any]]]:
    """Make a file, and return its size and some of its rows."""
    table = lake.table(number)
    path = folder / "data" / f"part-{number:05}.parquet"
    few = ["g", "user", "country", *(name for name in table.column_names if name[0] in "mt" and name[1:].isdigit())]
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        plain = Path(scratch, "plain.parquet")
        pq.write_table(
            table,
            plain,
            row_group_size=lake.rows,
            use_dictionary=[name for name in few if name in table.column_names],
            data_page_size=_SMALL_PAGES if lake.pages else None,
            write_page_index=lake.pages,
        )
        parquet_bloom.embed(plain, lake.filtered, fpp=FPP, output=path, threads=1)
    rng = np.random.default_rng([_SEED, number])
    chosen = np.sort(rng.choice(table.num_rows, min(table.num_rows, -(-_SAMPLES // lake.files)), replace=False))
    names = [name for name in ("id", "uuid", "v", "ts", "tags", "user") if name in table.column_names]
    return path.stat().st_size, table.select(names).take(chosen).to_pylist()


def _lists(rng: np.random.Generator, count: int) -> pa.Array:
    """Return lists of none to 8 numbers."""
    ends = np.concatenate([[0], np.cumsum(rng.integers(0, 9, count))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(rng.integers(0, TAGS, int(ends[-1]))))


def _dictionaries(rng: np.random.Generator, row_groups: int, rows: int) -> dict[str, pa.Array]:
    """Return texts of few distinct values; those of `user` differ from row group to row group."""
    users = []
    for _ in range(row_groups):
        distinct = texts(uuids(rng, _USERS))
        users.append(distinct.take(pa.array(rng.integers(0, _USERS, rows))))
    countries = pa.array([f"country {number:02}" for number in range(SPANS)])
    return {
        "user": pa.chunked_array(users).combine_chunks(),
        "country": countries.take(pa.array(rng.integers(0, SPANS, row_groups * rows))),
    }


def _many_columns(rng: np.random.Generator, count: int) -> dict[str, Any]:
    """Return columns of numbers `d...`, of few numbers `m...` and of few texts `t...`."""
    words: Sequence[str] = [f"word {number:03}" for number in range(200)]
    columns: dict[str, Any] = {}
    for number in range(_WIDE):
        if number % 3 == 0:
            columns[f"d{number}"] = rng.random(count)
        elif number % 3 == 1:
            columns[f"m{number}"] = rng.integers(0, 1_000, count)
        else:
            columns[f"t{number}"] = pa.array(words).take(pa.array(rng.integers(0, len(words), count)))
    return columns

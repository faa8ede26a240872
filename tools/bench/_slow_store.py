"""The lakes of the slow store, and the process of its server.

The bucket `lake` is one folder, made once and reused:

data/           1,000 files of 4 row groups of 4,050 rows, 0.9 MB each: id (int64, random), key (a uuid's text), value
more/.../data/  50 more files of the same kind
ids.index/      a lake index of data/; appended-....index/ while the server runs: new ones, and copies of it
zoned/data/     a file of 4 row groups of 820,000 rows, without filters, so that each zone is probed
ids.zones.parquet   its zones of 8,192 rows, 13 MB

Index and zones are built through the server, without a delay, so that they hold the objects' etags.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import _common  # noqa: F401  (first, to import the package of this checkout)
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _lake import Lake, texts, uuids

import parquet_bloom
from parquet_bloom import zones

BUCKET = "lake"
DATA, MORE, INDEX = "data/", "more/", "ids.index"
APPENDED = "appended-{}.index"
ZONED, ZONES = "zoned/data/one.parquet", "ids.zones.parquet"
ROW_GROUPS, ROWS, FPP = 4, 4_050, 0.01
ZONED_ROWS, PER_ZONE = 820_000, 8_192
_SEED = 19
_ZONED_SEED = 1 << 40


def rows_of(seed: int, count: int) -> pa.Table:
    """Make rows, deterministically by the seed."""
    rng = np.random.default_rng([_SEED, seed])
    ids, values = rng.integers(-(2**63), 2**63, count), rng.random(count)
    return pa.table({"id": ids, "key": texts(uuids(rng, count)), "value": values})


@dataclass(frozen=True)
class SlowLake(Lake):
    """Write files of three columns; `first` is the number of the first one."""

    first: int = 0

    def table(self, number: int) -> pa.Table:
        return rows_of(self.first + number, self.row_groups * self.rows)


class Server:
    """The store in a separate process."""

    def __init__(self, folder: Path, latency: float) -> None:
        program = Path(__file__).with_name("_slow_server.py")
        command = [sys.executable, str(program), "--latency", str(latency), f"{BUCKET}={folder}"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.endpoint = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def counts(self) -> dict[str, Any]:
        """Return the counts since the last call."""
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{self.endpoint}/_counts") as answer:
            return json.load(answer)

    @property
    def options(self) -> dict[str, str]:
        """Return the options for obstore."""
        return {
            "aws_endpoint": self.endpoint,
            "aws_region": "us-east-1",
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
            "allow_http": "true",
        }

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def url(key: str) -> str:
    return f"s3://{BUCKET}/{key}"


class Bucket:
    """The bucket's files on disk, and their rows."""

    def __init__(self, home: Path, files: int, more: int) -> None:
        self.lake = SlowLake(home, files, ROW_GROUPS, ROWS, FPP, ("id",))
        self.more = SlowLake(self.folder / MORE, more, ROW_GROUPS, ROWS, FPP, ("id",), first=files)

    @property
    def folder(self) -> Path:
        return self.lake.folder

    @property
    def more_key(self) -> str:
        return f"{self.more.data.relative_to(self.folder).as_posix()}/"

    def size(self, key: str) -> int:
        """Return the bytes of an object, or of all objects below a folder."""
        path = self.folder / key
        return sum(file.stat().st_size for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())

    def make(self, anew: bool, zoned: bool) -> None:
        """Make missing files; rebuild index and zones if `anew`, and make the file with zones if `zoned`."""
        self.lake.make()
        self.more.make()
        if anew or not (self.folder / "indexed.json").exists():
            self._index()
        if zoned and (anew or not (self.folder / ZONES).exists()):
            self._zone()

    def _index(self) -> None:
        complete = self.folder / "indexed.json"
        complete.unlink(missing_ok=True)
        shutil.rmtree(self.folder / INDEX, ignore_errors=True)
        with Server(self.folder, 0) as server:
            options = server.options
            with parquet_bloom.LakeIndex.create(url(INDEX), "id", lake=url(DATA), storage_options=options) as index:
                index.append()
        complete.write_text("{}")

    def _zone(self) -> None:
        path = self.folder / ZONED
        (self.folder / ZONES).unlink(missing_ok=True)
        if not path.exists():
            path.parent.mkdir(parents=True)
            partial = self.folder / ".zoned.parquet"
            pq.write_table(self._zoned, partial, row_group_size=ZONED_ROWS, use_dictionary=False, write_page_index=True)
            partial.rename(path)
        with Server(self.folder, 0) as server:
            zones.build(url("zoned/data/"), "id", url(ZONES), rows_per_zone=PER_ZONE, storage_options=server.options)

    def empty(self, copies: int) -> None:
        """Delete the output of appends, and make a copy of the index for each append."""
        for path in self.folder.glob("appended-*.index"):
            shutil.rmtree(path)
        for number in range(copies):
            shutil.copytree(self.folder / INDEX, self.folder / APPENDED.format(f"copy-{number}"))

    @cached_property
    def _zoned(self) -> pa.Table:
        return rows_of(_ZONED_SEED, ROW_GROUPS * ZONED_ROWS)

    def rows(self, rng: np.random.Generator) -> Iterator[Mapping[str, Any]]:
        """Return random rows of the lake."""
        return self.lake.some_rows(rng)

    def zoned_rows(self, rng: np.random.Generator) -> Iterator[Mapping[str, Any]]:
        """Return random rows of the file with zones."""
        while True:
            yield self._zoned.slice(int(rng.integers(self._zoned.num_rows)), 1).to_pylist()[0]

"""The slow store's lakes and its server's process.

The bucket `lake` is one folder, made once and kept:

data/           1,000 files of 4 row groups of 4,050 rows, 0.9 MB each: id (int64, random), key (a uuid's text), value
more/.../data/  50 files more of the same kind
ids.index/      a lake index of data/; appended-....index/ while the server runs: new ones, and copies of it
zoned/data/     a file of 4 row groups of 820,000 rows, without filters, so that each zone is asked
ids.zones.parquet   its zones of 8,192 rows, 13 MB

Index and zones are made through the server, at 0 ms, so that they know the objects' etags.
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

import _common  # noqa: F401  (first: the package beside these tools is the one to import)
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
    """As many rows; the same ones for the same seed."""
    rng = np.random.default_rng([_SEED, seed])
    ids, values = rng.integers(-(2**63), 2**63, count), rng.random(count)
    return pa.table({"id": ids, "key": texts(uuids(rng, count)), "value": values})


@dataclass(frozen=True)
class SlowLake(Lake):
    """Files of three columns; the first one's number is `first`."""

    first: int = 0

    def table(self, number: int) -> pa.Table:
        return rows_of(self.first + number, self.row_groups * self.rows)


class Server:
    """The store in a process of its own."""

    def __init__(self, folder: Path, latency: float) -> None:
        program = Path(__file__).with_name("_slow_server.py")
        command = [sys.executable, str(program), "--latency", str(latency), f"{BUCKET}={folder}"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.endpoint = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def counts(self) -> dict[str, Any]:
        """What was asked since the last call."""
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{self.endpoint}/_counts") as answer:
            return json.load(answer)

    @property
    def options(self) -> dict[str, str]:
        """What obstore has to know."""
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
    """The bucket's files on disk, and rows of them that can be asked for."""

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
        """Bytes of an object, or of all below a folder."""
        path = self.folder / key
        return sum(file.stat().st_size for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())

    def make(self, anew: bool, zoned: bool) -> None:
        """Make what is not there; what is indexed also when `anew` is true, the file with zones when `zoned` is."""
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
        """Take away what appends have written, and copy the index as often as it is to be appended to."""
        for path in self.folder.glob("appended-*.index"):
            shutil.rmtree(path)
        for number in range(copies):
            shutil.copytree(self.folder / INDEX, self.folder / APPENDED.format(f"copy-{number}"))

    @cached_property
    def _zoned(self) -> pa.Table:
        return rows_of(_ZONED_SEED, ROW_GROUPS * ZONED_ROWS)

    def rows(self, rng: np.random.Generator) -> Iterator[Mapping[str, Any]]:
        """Rows of the lake, drawn at random."""
        return self.lake.some_rows(rng)

    def zoned_rows(self, rng: np.random.Generator) -> Iterator[Mapping[str, Any]]:
        """Rows of the file that has zones, drawn at random."""
        while True:
            yield self._zoned.slice(int(rng.integers(self._zoned.num_rows)), 1).to_pylist()[0]

"""A lake of small random files with filters, made once and reused by later runs.

A file is a function of its number, so that any row can be computed without reading it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import _common  # noqa: F401  (first, to import the package of this checkout)
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom

FILTERED = ("id", "key")
SCHEMA = pa.schema(
    {"id": pa.int64(), "key": pa.string(), "ts": pa.timestamp("us"), "payload": pa.string(), "value": pa.float64()}
)
_RECIPE = 1  # version of the content: increase it to rebuild existing lakes
_SEED = 20
_FIRST_TS = 1_700_000_000_000_000
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_DASHES = (8, 13, 18, 23)
_PAYLOAD = 40  # characters
_PAGE_BYTES = 16 * 1024  # so that a column chunk, of 40 to 200 KB, has several pages
_ROW_BYTES = 140  # maximum disk space of a row, including filters


@dataclass(frozen=True)
class Lake:
    """`files` files of `row_groups` row groups of `rows` rows, filters of `fpp` on `filtered`; stored below `home`."""

    home: Path
    files: int
    row_groups: int
    rows: int
    fpp: float
    filtered: tuple[str, ...] = FILTERED

    @property
    def folder(self) -> Path:
        return self.home / f"{self.files}x{self.row_groups}x{self.rows}-{self.fpp}"

    @property
    def data(self) -> Path:
        """The folder of the Parquet files, and nothing else."""
        return self.folder / "data"

    def path(self, number: int) -> Path:
        return self.data / f"part-{number:05}.parquet"

    @property
    def paths(self) -> list[Path]:
        return [self.path(number) for number in range(self.files)]

    def complete(self) -> bool:
        """Return whether the lake exists, with the original size of each file, and no other files."""
        try:
            state = json.loads((self.folder / "complete.json").read_text())
            return state == self._state() and len(os.listdir(self.data)) == self.files
        except (OSError, ValueError):
            return False

    def _state(self) -> dict[str, Any]:
        return {"recipe": _RECIPE, "sizes": [path.stat().st_size for path in self.paths]}

    def table(self, number: int) -> pa.Table:
        """Return the rows of a file."""
        rng = np.random.default_rng([_SEED, number])
        count = self.row_groups * self.rows
        stamps = _FIRST_TS + np.cumsum(rng.integers(1, 2_000_000, count)) + number * 10**10
        columns = [
            pa.array(rng.integers(-(2**63), 2**63, count)),
            texts(uuids(rng, count)),
            pa.array(stamps, pa.timestamp("us")),
            texts(_hex(rng, count, _PAYLOAD)),
            pa.array(rng.random(count)),
        ]
        return pa.table(columns, schema=SCHEMA)

    def some_rows(self, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
        """Return random existing rows."""
        while True:
            table = self.table(int(rng.integers(self.files)))
            yield table.slice(int(rng.integers(table.num_rows)), 1).to_pylist()[0]

    def make(self) -> None:
        """Make the lake, unless it is complete."""
        if self.complete():
            return
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.data.mkdir(parents=True)
        needed, free = self.files * self.row_groups * self.rows * _ROW_BYTES, shutil.disk_usage(self.folder).free
        if needed > free:
            raise SystemExit(f"{self.home} has {free / 1e9:.1f} GB free, the lake takes {needed / 1e9:.1f} GB")
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
            for _ in pool.map(partial(_make_file, self), range(self.files), chunksize=8):
                pass
        (self.folder / "complete.json").write_text(json.dumps(self._state()))


def _make_file(lake: Lake, number: int) -> None:
    with tempfile.TemporaryDirectory(dir=lake.folder, prefix=".making-") as folder:
        plain = Path(folder, "plain.parquet")
        pq.write_table(
            lake.table(number),
            plain,
            row_group_size=lake.rows,
            use_dictionary=False,
            data_page_size=_PAGE_BYTES,
            write_page_index=True,
        )
        parquet_bloom.embed(plain, list(lake.filtered), fpp=lake.fpp, output=lake.path(number), threads=1)


def _hex(rng: np.random.Generator, count: int, width: int) -> np.ndarray:
    return _HEX[rng.integers(0, 16, (count, width), dtype=np.uint8)]


def uuids(rng: np.random.Generator, count: int) -> np.ndarray:
    text = _hex(rng, count, 36)
    text[:, _DASHES] = ord("-")
    text[:, 14] = ord("4")
    return text


def texts(characters: np.ndarray) -> pa.Array:
    count, width = characters.shape
    offsets = np.arange(count + 1, dtype=np.int32) * width
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(characters.tobytes()))

"""Timestamps written by Spark in types for which it does not use filters itself, with our filters."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import parquet_bloom

KINDS = ("INT96", "timestamp_ntz")
_FIRST, _SPAN = 1_600_000_000_000_000, 10**15  # microseconds: some 30 years
_RECIPE = 1
_OUTPUT = "spark.sql.parquet.outputTimestampType"


@dataclass
class Moments:
    """`files` files of `row_groups` row groups of `rows` rows with a random timestamp `t` each; stored below `home`.

    A row's timestamp is a hash of its number `id`, so that any row can be computed without reading it.
    """

    spark: Any
    home: Path
    kind: str
    files: int
    row_groups: int
    rows: int = 2_000

    @property
    def folder(self) -> Path:
        return self.home / f"moments-{self.kind}-{self.files}x{self.row_groups}x{self.rows}"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def _moment(self, number: str) -> str:
        moment = f"timestamp_micros({_FIRST} + pmod(xxhash64({number}), {_SPAN}))"
        return moment if self.kind == "INT96" else f"cast({moment} as timestamp_ntz)"

    def make(self) -> None:
        """Make the files, unless they exist."""
        done = self.folder / "complete.json"
        if done.exists() and json.loads(done.read_text()) == _RECIPE:
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        rows = self.spark.range(0, self.files * self.row_groups * self.rows, 1, self.files)
        before = self.spark.conf.get(_OUTPUT)
        self.spark.conf.set(_OUTPUT, "INT96")
        try:
            frame = rows.selectExpr("id", f"{self._moment('id')} t", "uuid() payload")
            frame.write.option("parquet.block.row.count.limit", self.rows).parquet(str(self.data))
        finally:
            self.spark.conf.set(_OUTPUT, before)
        for path in sorted(self.data.glob("*.parquet")):
            parquet_bloom.embed(path, ["t"], fpp=0.001)
        done.write_text(json.dumps(_RECIPE))

    def __call__(self, kind: str) -> tuple[str, list[dict[str, Any]]]:
        """Return a query for the timestamp of a row, or for an absent one, and the row's `id`."""
        rng = np.random.default_rng()
        number = int(rng.integers(self.files * self.row_groups * self.rows))
        if kind == "absent":
            number = -1 - int(rng.integers(10**9))  # of two hashes one in 10^10 is the same
        text = self.spark.sql(f"SELECT CAST({self._moment(f'{number}L')} AS STRING) t").first().t
        literal = "TIMESTAMP" if self.kind == "INT96" else "TIMESTAMP_NTZ"
        return f"t = {literal} '{text}'", [] if kind == "absent" else [{"id": number}]

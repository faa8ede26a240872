"""A lake whose files are rewritten all the time, by another process: this module, run as a program.

churn.py FOLDER SECONDS COLUMN... embeds filters and drops them, again and again, until its input ends, with a pause of
so many seconds after each file. It answers each line with the number of files that it has rewritten by then.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom
from parquet_bloom.errors import ConcurrentChangeError

PROJECT = Path(__file__).resolve().parents[3]  # what a program that imports the package has on its path
FILES, ROWS, GROUP_ROWS = 6, 300, 100


def value_of(number: int, row: int) -> int:
    """An id that one row of the lake has."""
    return 7 * (number * ROWS + row)


def name_of(value: int) -> str:
    return f"name {value}"


def write_lake(folder: Path, more_columns: Sequence[str] = ()) -> None:
    for number in range(FILES):
        ids = [value_of(number, row) for row in range(ROWS)]
        np.random.default_rng(number).shuffle(ids)
        table = pa.table({"id": ids, "name": list(map(name_of, ids)), "value": [each / 8 for each in ids]})
        for column in more_columns:
            table = table.append_column(column, pa.array(ids))
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=GROUP_ROWS, write_page_index=True)


class Churn:
    """Loop for one thread, with counters that another one reads."""

    def __init__(self, folder: Path, pause: float, columns: list[str]) -> None:
        self.rewritten = 0
        self.stopped = threading.Event()
        self._folder = folder
        self._columns = columns
        self._pause = pause
        self._chance = random.Random(5)

    def run(self) -> None:
        while not self.stopped.is_set():
            for path in sorted(self._folder.rglob("[!._]*.parquet")):
                try:
                    self.rewrite(path)
                except ConcurrentChangeError:
                    continue
                if self.stopped.wait(self._pause):
                    return

    def rewrite(self, path: Path) -> None:
        """Drop filters of the file, or embed others."""
        columns = self._chance.sample(self._columns, self._chance.randint(1, len(self._columns)))
        if self._chance.random() < 0.4:
            self.rewritten += parquet_bloom.drop(path, columns).changed
        else:
            replace = self._chance.random() < 0.3
            fpp = self._chance.choice((0.1, 0.001))
            self.rewritten += parquet_bloom.embed(path, columns, fpp=fpp, replace=replace, threads=1).changed


def main() -> None:
    churn = Churn(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
    thread = threading.Thread(target=churn.run)
    thread.start()
    try:
        for _ in sys.stdin:
            print(churn.rewritten if thread.is_alive() else "it failed", flush=True)
    finally:
        churn.stopped.set()
        thread.join()


if __name__ == "__main__":
    main()

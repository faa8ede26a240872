"""Draw docs/prune.png: what a predicate reads of a small lake. `python tools/picture.py [--page FILE]`.

It is the page of `parquet-bloom prune --html --check` as Chromium shows it (on Debian: apt-get install chromium).

The lake has forty files of an hour each with eight row groups, sorted by time, and filters on `user_id` except in two
files. The predicate selects one user in all but the first hours.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import parquet_bloom

TARGET = Path(__file__).parents[1] / "docs" / "prune.png"
WIDTH, HEIGHT = 1150, 1130
FILES, GROUPS, ROWS = 40, 8, 4000
FORGOTTEN = (27, 28)
USERS = 400_000
MATCHES = {(9, 2), (22, 5), (28, 1), (33, 6)}  # files and row groups that hold the user
USER = 7_700_077
WHERE = f"user_id = {USER} AND at >= TIMESTAMP '2026-01-01 05:30:00'"


def write_lake(folder: Path) -> None:
    """Write the files, deterministically."""
    random = np.random.default_rng(7)
    start = np.datetime64("2026-01-01T00:00:00", "us")
    for file in range(FILES):
        path = folder / f"day=2026-01-{1 + file // 24:02}" / f"hour-{file % 24:02}.parquet"
        path.parent.mkdir(exist_ok=True)
        rows = GROUPS * ROWS
        users = random.integers(0, USERS, rows) * 20 + 1_000_000
        for group in range(GROUPS):
            if (file, group) in MATCHES:
                users[group * ROWS + int(random.integers(0, ROWS))] = USER
        at = start + np.sort(random.integers(0, 3_600_000_000, rows)) + np.timedelta64(file, "h")
        urls = [f"/page/{number}" for number in random.integers(0, 5000, rows)]
        table = pa.table({"user_id": users, "at": pa.array(at, pa.timestamp("us")), "url": urls})
        if file in FORGOTTEN:
            pq.write_table(table, path, row_group_size=ROWS)
        else:
            parquet_bloom.write_table(table, path, {"user_id": 0.01}, row_group_size=ROWS, power_of_two=False)


def take_picture(page: Path, target: Path) -> None:
    """Let Chromium draw the top of a page."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("there is no Chromium; on Debian: apt-get install chromium")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=3000"]
    options += [f"--window-size={WIDTH},{HEIGHT}", f"--screenshot={target}"]
    subprocess.run([chromium, *options, f"--user-data-dir={page.parent / 'profile'}", page.as_uri()], check=True)


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--page", help="also keep the page")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lake = Path(folder, "lake")
        lake.mkdir()
        write_lake(lake)
        os.chdir(folder)  # so that the picture has no name of a folder of this machine
        report = parquet_bloom.prune("lake", WHERE)
        page = Path(folder, "page.html")
        report.to_html(page, check=True, asked_fpp=0.01)
        take_picture(page, TARGET)
        if arguments.page:
            shutil.copy(page, arguments.page)
    print(f"{TARGET}: {TARGET.stat().st_size:,} bytes; {report}")


if __name__ == "__main__":
    main()

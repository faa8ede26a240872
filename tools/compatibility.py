"""Measure which engines read which Bloom filters, without losing rows: the matrix of docs/reference/compatibility.md.

    python tools/compatibility.py [--engines a,b] [--quick] [--old CACHE] [--resume FILE] [--write]

Each writer writes columns of each type. Each file gets our filters and those of the writer, with bitsets of powers of
two and of other sizes, with and without `bloom_filter_length`. Each reader queries every value by `column = value`, and
must return the same rows as without filters. A row is then queried with filters that deny everything: if it is missing,
the reader uses filters. The exit code is 1 if a row was lost with our filters, or by our reader.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

from compat import columns, page, releases  # noqa: E402
from compat.matrix import Matrix  # noqa: E402
from compat.readers import Worker, WorkerError  # noqa: E402
from compat.run import ENGINES, Run, installed  # noqa: E402


def main() -> int:
    """Measure, print, and write the page if requested."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engines", default=",".join(ENGINES), help="writers and readers besides parquet_bloom")
    parser.add_argument("--quick", action="store_true", help="few types and values, and only the extreme combinations")
    parser.add_argument(
        "--values", type=int, default=columns.DISTINCT, help="number of values of a column in each row group"
    )
    parser.add_argument(
        "--old", metavar="CACHE", type=Path, help="also measure older releases; folder of their environments"
    )
    parser.add_argument("--releases", help="prefixes of the names of older releases to measure: spark,duckdb 1")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="engines run at the same time")
    parser.add_argument(
        "--resume", metavar="FILE", type=Path, help="continue from the results in this file, and update it"
    )
    parser.add_argument("--write", action="store_true", help=f"write the tables into {page.PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    engines = [name for name in arguments.engines.split(",") if name]
    if unknown := set(engines) - set(ENGINES):
        parser.error(f"unknown engine {', '.join(sorted(unknown))}; choose from {', '.join(ENGINES)}")
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {text}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as name:
        matrices = load(arguments.resume)
        keep = partial(save, arguments.resume, matrices)
        first, second = matrices
        now = Run(Path(name, "now"), arguments.quick, arguments.values, say, arguments.jobs, first, keep)
        old = Run(Path(name, "old"), arguments.quick, arguments.values, say, 1, second, keep)
        now.current(engines)
        if arguments.old:
            measure_older(old, engines, arguments.old.resolve(), arguments.releases, arguments.jobs)
    text = page.tables(now.matrix, old.matrix, f"{datetime.date.today()}")
    print(text)
    if arguments.write:
        page.put(text)
    failed = page.failures(now.matrix, old.matrix)
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


def load(file: Path | None) -> tuple[Matrix, Matrix]:
    """Load the results of an earlier run: of installed engines, and of older releases."""
    if file is None or not file.exists():
        return Matrix(), Matrix()
    now, old = json.loads(file.read_text("utf-8"))
    return Matrix.from_json(now), Matrix.from_json(old)


def save(file: Path | None, matrices: tuple[Matrix, Matrix]) -> None:
    """Save the results so far."""
    if file is not None:
        temporary = file.with_suffix(".new")
        temporary.write_text(json.dumps([matrix.to_json() for matrix in matrices]), "utf-8")
        temporary.replace(file)


def measure_older(run: Run, engines: list[str], cache: Path, prefixes: str | None, jobs: int) -> None:
    """Measure older releases of the engines."""
    names = tuple((prefixes or "").split(","))
    selected = [item for item in releases.RELEASES if item.engine in engines and str(item).startswith(names)]
    titles: dict[str, str] = {}

    def one(release: releases.Release) -> None:
        folder = run.folder / str(release).replace(" ", "-")
        with contextlib.ExitStack() as stack:
            try:
                program = releases.python(cache, release)
                worker = Worker(release.engine, folder / "engine", program)
                stack.callback(worker.close)
                today = None
                if installed(release.engine):
                    today = Worker(release.engine, folder / "today")
                    stack.callback(today.close)
            except (releases.NotInstalled, WorkerError, EOFError) as error:
                run.note(f"{release} was not measured: {error}")
                return
            run.say(worker.title)
            titles[str(release)] = worker.title
            part = replace(run, folder=folder)  # with the same matrix
            part.release(release.engine, worker, today)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, selected))
    run.matrix.order = [titles[str(release)] for release in selected if str(release) in titles]
    run.keep()


if __name__ == "__main__":
    sys.exit(main())

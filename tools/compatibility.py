"""Who reads whose Bloom filters, and whether a row is lost: the matrix of docs/compatibility.md, measured.

    python tools/compatibility.py [--engines a,b] [--quick] [--old CACHE] [--resume FILE] [--write]

Each writer writes each type; each file gets filters of ours and of the writer's own, with bitsets of powers of two and
others, with and without `bloom_filter_length`; each reader is asked for every value with an equality that it may answer
by the filters, and has to find what it finds without them. A row is looked for once more with filters that deny
everything: where it vanishes, the reader asks the filters. Ends with 1 if filters of ours, or our reading, lost a row.
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
    """Measure, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--engines", default=",".join(ENGINES), help="writers and readers beside parquet_bloom")
    parser.add_argument("--quick", action="store_true", help="few types and values, and the corners of the matrix")
    parser.add_argument("--values", type=int, default=columns.DISTINCT, help="values of a column in each row group")
    parser.add_argument("--old", metavar="CACHE", type=Path, help="also older releases; where their environments are")
    parser.add_argument("--releases", help="of the older ones those whose names begin so: spark,duckdb 1")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="engines at work at once")
    parser.add_argument("--resume", metavar="FILE", type=Path, help="keep what is found there, and go on from it")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {page.PAGE.relative_to(ROOT)}")
    arguments = parser.parse_args()
    engines = [name for name in arguments.engines.split(",") if name]
    if unknown := set(engines) - set(ENGINES):
        parser.error(f"no engine {', '.join(sorted(unknown))}; there are {', '.join(ENGINES)}")
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {text}", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory() as name:
        known = kept(arguments.resume)
        keep = partial(save, arguments.resume, known)
        first, second = known
        now = Run(Path(name, "now"), arguments.quick, arguments.values, say, arguments.jobs, first, keep)
        old = Run(Path(name, "old"), arguments.quick, arguments.values, say, 1, second, keep)
        now.current(engines)
        if arguments.old:
            older(old, engines, arguments.old.resolve(), arguments.releases, arguments.jobs)
    text = page.tables(now.matrix, old.matrix, f"{datetime.date.today()}")
    print(text)
    if arguments.write:
        page.put(text)
    failed = page.failures(now.matrix, old.matrix)
    for line in failed:
        print(line, file=sys.stderr)
    return 1 if failed else 0


def kept(file: Path | None) -> tuple[Matrix, Matrix]:
    """What an earlier run found: of what is installed, and of older releases."""
    if file is None or not file.exists():
        return Matrix(), Matrix()
    now, old = json.loads(file.read_text("utf-8"))
    return Matrix.from_json(now), Matrix.from_json(old)


def save(file: Path | None, known: tuple[Matrix, Matrix]) -> None:
    """Keep what was found so far."""
    if file is not None:
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps([matrix.to_json() for matrix in known]), "utf-8")
        beside.replace(file)


def older(run: Run, engines: list[str], cache: Path, chosen: str | None, jobs: int) -> None:
    """Ask the older releases of the engines."""
    names = tuple((chosen or "").split(","))
    wanted = [item for item in releases.RELEASES if item.engine in engines and str(item).startswith(names)]
    found: dict[str, str] = {}

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
                run.note(f"{release} is left out: {error}")
                return
            run.say(worker.title)
            found[str(release)] = worker.title
            part = replace(run, folder=folder)  # with the same matrix
            part.release(release.engine, worker, today)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, wanted))
    run.matrix.order = [found[str(release)] for release in wanted if str(release) in found]
    run.keep()


if __name__ == "__main__":
    sys.exit(main())

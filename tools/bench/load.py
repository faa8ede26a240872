"""Measure the memory of operations on large data against stated ceilings; exceeding one gives exit code 1.

Each step runs in a separate process; peak memory is measured by the kernel (`VmHWM`), including interpreter, imports
and pages of mapped files. Steps without a ceiling make data.

python tools/bench/load.py [--cases files,columns,...] [--small] [--folder FOLDER] [--output FILE]
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

import _load_files
import _load_index
import _load_one
from _common import header
from _load import Size, Step, measure
from _results import record

CASES: dict[str, tuple[str, tuple[Step, ...]]] = {
    "files": ("many small files", _load_files.MANY),
    "jobs": ("200 files, one of them broken, --jobs 2", _load_files.JOBS),
    "columns": ("one file of many columns", _load_one.COLUMNS),
    "values": ("column chunks beyond measure", _load_one.VALUES),
    "big": ("one large file", _load_one.BIG),
    "index": ("an index of many values", _load_index.INDEX),
}
DISK = {"big": 45, "index": 30, "values": 4, "files": 3}  # GB of disk space that a case requires, in full


def run(name: str, folder: Path, size: Size) -> bool:
    """Measure a case; return whether all its ceilings are met."""
    title, steps = CASES[name]
    print(f"{name}: {title}")
    print(f"  {'':34} {'seconds':>9} {'of CPU':>8} {'peak MiB':>9} {'ceiling':>8} {'written MiB':>12}")
    good = True
    for step in steps:
        done = measure(step, folder, size)
        within = not done.failed and (not step.ceiling or done.peak <= step.ceiling)
        good &= within
        ceiling = f"{step.ceiling:,}" if step.ceiling else "-"
        verdict = "" if within else "  FAILED" if done.failed else "  ABOVE THE CEILING"
        numbers = f"{done.seconds:9.2f} {done.busy:8.2f} {done.peak:9,.0f} {ceiling:>8} {done.written:12,.0f}"
        print(f"  {step.name:34} {numbers}  {done.note}{verdict}")
    print()
    return good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES), help="some of %(default)s")
    parser.add_argument("--small", action="store_true", help="use small data, made in seconds")
    parser.add_argument("--folder", type=Path, help="folder for the data")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    names = given.cases.split(",")
    if unknown := [name for name in names if name not in CASES]:
        parser.error(f"there is no case {', '.join(unknown)}")
    good = True
    with record(given.output, "load"):
        header(
            "load: time, memory and what is written, beside a ceiling",
            "of CPU   seconds of processors, start of the interpreter included",
            "memory   peak of the step's own process, in MiB: with interpreter, imports and mapped files",
            *(["data     small: no measure of anything but this program"] if given.small else []),
        )
        for name in names:
            with tempfile.TemporaryDirectory(dir=given.folder, prefix="load-") as folder:
                free = shutil.disk_usage(folder).free / 1e9
                if not given.small and free < DISK.get(name, 1):
                    print(f"{name}: left out, it takes {DISK[name]} GB of disk and {free:.0f} are free\n")
                    good = False
                    continue
                os.environ["TMPDIR"] = folder
                good &= run(name, Path(folder), Size(not given.small))
        print("all within their ceilings" if good else "NOT all within their ceilings")
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()

"""Steps of `load.py` over many files, one of them broken: prune, embed, index, advise, show, verify."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from _load import Size, Step

import parquet_bloom
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.storage.local.local_rewrite import leftovers

ROWS = 100
A_FOLDER = 1_000  # files
MANY_FILES, FEW_FILES = 100_000, 300
EMBEDDED = 10  # folders that get filters: more would give no more information
BROKEN = 77
PROGRAM = "import sys; from parquet_bloom import cli; sys.exit(cli.main(sys.argv[1:]))"


def command(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run the command line in a separate process."""
    line = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    return subprocess.run(line, env=_environment(), capture_output=True, text=True, check=False, **options)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}


def _count(size: Size) -> int:
    return size.of(MANY_FILES, FEW_FILES)


def _id(number: int, row: int = 7) -> int:
    return number * ROWS + row


def _make(folder: Path, size: Size) -> str:
    """Make files with distinct ids; their ranges are useless, as each file holds a number at either end."""
    count = _count(size)
    for number in range(count):
        target = folder / "lake" / f"day={number // A_FOLDER:03}"
        if number % A_FOLDER == 0:
            target.mkdir(parents=True)
        ids = np.arange(number * ROWS, (number + 1) * ROWS)
        ids[0], ids[-1] = -1, 1 << 60
        names = [f"name {value % 1009}" for value in range(number, number + ROWS)]
        pq.write_table(pa.table({"id": ids, "name": names}), target / f"part-{number:06}.parquet")
    return f"{count:,} files of {ROWS} rows"


def _prune(folder: Path, size: Size, times: int) -> str:
    lake, predicate = str(folder / "lake"), f"id = {_id(3)}"
    seconds = []
    for _ in range(times):
        started = time.perf_counter()
        report = parquet_bloom.prune(lake, predicate)
        seconds.append(time.perf_counter() - started)
    assert len(report.files) == _count(size)
    return f"{', '.join(f'{each:.2f} s' for each in seconds)}; {len(report.selected):,} files left"


def _prune_once(folder: Path, size: Size) -> str:
    return _prune(folder, size, 1)


def _prune_again(folder: Path, size: Size) -> str:
    return _prune(folder, size, 3)


def _embed(folder: Path, size: Size) -> str:
    folders = sorted((folder / "lake").iterdir())[:EMBEDDED]
    done = command("embed", *folders, "--column", "id", "--in-place", "--jobs", "2", "--json")
    assert done.returncode == 0, done.stderr
    totals = json.loads(done.stdout)["totals"]
    assert totals["filters"] == min(_count(size), EMBEDDED * A_FOLDER)
    return f"filters in {totals['files']:,} files"


def _report_command(name: str, *arguments: str, codes: tuple[int, ...] = (0,)) -> Any:
    def run(folder: Path, size: Size) -> str:
        done = command(name, folder / "lake", *arguments)
        assert done.returncode in codes, done.stderr
        return f"{len(done.stdout.splitlines()):,} lines"

    return run


def _show(folder: Path, size: Size) -> str:
    return _report_command("show", "--format", "ndjson")(folder, size)


def _verify(folder: Path, size: Size) -> str:
    return _report_command("verify", "--format", "ndjson")(folder, size)


def _advise(folder: Path, size: Size) -> str:
    return _report_command("advise")(folder, size)


def _index(folder: Path, size: Size) -> str:
    with LakeIndex.create(folder / "ids.index", "id", expected_values=_count(size) * ROWS) as index:
        report = index.append(folder / "lake")
    return f"{report}"


def _lookup(folder: Path, size: Size) -> str:
    started = time.perf_counter()
    with LakeIndex.open(folder / "ids.index") as index:
        opened = time.perf_counter()
        for number in range(100):
            paths = [each.path for each in index.lookup("id", [_id(number)])[0]]
            assert any(path.endswith(f"part-{number:06}.parquet") for path in paths)
        ended = time.perf_counter()
    return f"open {opened - started:.2f} s, a lookup {1e3 * (ended - opened) / 100:.3f} ms"


def _prune_by_index(folder: Path, size: Size) -> str:
    started = time.perf_counter()
    report = parquet_bloom.prune(None, f"id = {_id(3)}", index=str(folder / "ids.index"))
    assert report.selected
    return f"{time.perf_counter() - started:.2f} s; {len(report.selected):,} files left"


MANY = (
    Step("make", 0, _make),
    Step("prune, nothing known", 700, _prune_once),
    Step("prune, three times", 700, _prune_again),
    Step("embed 10,000, --jobs 2", 200, _embed),
    Step("show", 200, _show),
    Step("verify", 200, _verify),
    Step("advise", 300, _advise),
    Step("index: create, append", 900, _index),
    Step("index: open, lookups", 500, _lookup),
    Step("prune by index", 700, _prune_by_index),
)


# ------------------------------------------------------------------------------------------------ one of them broken


def _make_200(folder: Path, size: Size) -> str:
    (folder / "lake").mkdir()
    for number in range(200):
        ids = np.random.default_rng(number).integers(0, 1 << 62, size.of(200_000, 2_000))
        pq.write_table(pa.table({"id": ids}), folder / "lake" / f"{number:03}.parquet", row_group_size=100_000)
    broken = folder / "lake" / f"{BROKEN:03}.parquet"
    broken.write_bytes(broken.read_bytes()[:-9])
    return "200 files"


def _embed_200(folder: Path, *arguments: Any) -> subprocess.CompletedProcess[str]:
    return command("embed", folder / "lake", "--column", "id", "--in-place", "--jobs", "2", "--json", *arguments)


def _filtered(folder: Path) -> int:
    """Return the number of files with all their filters; all others except the broken one have none."""
    count = 0
    for path in sorted((folder / "lake").glob("*.parquet")):
        if int(path.stem) == BROKEN:
            continue
        with parquet_bloom.open(path) as file:
            filters, chunks = len(list(file.chunks())), file.footer.num_row_groups
            assert filters in (0, chunks), path
            count += filters > 0
    return count


def _killed(folder: Path, size: Size) -> str:
    line = [sys.executable, "-c", PROGRAM, "embed", str(folder / "lake"), "--column=id", "--in-place", "--jobs=2"]
    deaths = 0
    with subprocess.Popen(line, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        while child.poll() is None and _filtered(folder) < 50:
            time.sleep(0.01)
        child.send_signal(signal.SIGKILL)
        child.wait()
        deaths += child.returncode == -signal.SIGKILL
    remaining = leftovers(folder / "lake")
    for path in remaining:
        os.unlink(path)
    done = _filtered(folder)
    assert 0 < done < 199 or not deaths
    return f"{done} of 199 were done when it was killed, {len(remaining)} temporary files left"


def _again(folder: Path, size: Size) -> str:
    done = _embed_200(folder)
    lines = done.stderr.splitlines()
    assert done.returncode == 2, done.stderr
    errors = [line for line in lines if line.startswith("error: ")]
    assert len(errors) == 1, done.stderr
    assert f"{BROKEN:03}.parquet: " in errors[0]
    totals = json.loads(done.stdout)["totals"]
    assert totals["files"] == 199
    assert _filtered(folder) == 199
    return f"exit code 2; {totals['changed']} written, {totals['files'] - totals['changed']} were; {_short(errors[0])}"


def _short(error: str) -> str:
    return error.replace(error[error.index(" ") + 1 : error.rindex("/") + 1], "")


JOBS = (
    Step("make", 0, _make_200),
    Step("embed, killed in the middle", 200, _killed),
    Step("embed, run again", 200, _again),
)

"""Commands that write, the files before and after them, and what must hold whatever happens in between."""

from __future__ import annotations

import os
import re
import shutil
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from errno import EINVAL, ENOSYS
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from faulty import BEFORE, EVER, HALF, WRITES, Call, Commands, Outcome, Rule
from pyarrow import feather

import parquet_bloom
from parquet_bloom.cli import main
from parquet_bloom.lake.index_pruning import IndexPruner
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.predicate.tree import Like

LEFTOVER = re.compile(r"\..*\.[0-9a-f]{16}\.parquet_bloom\.(?:tmp|old)", re.DOTALL)
NO_EXCHANGE = [Rule(1, EVER, ",exchange,rename_new,copy_file_range,", BEFORE, EINVAL)]
OLD_KERNEL = [Rule(1, EVER, ",exchange,rename_new,copy_file_range,", BEFORE, ENOSYS)]

State = object
"""What a folder holds, as it can be compared."""


def checksums(data: bytes) -> bytes:
    """Return the checksum file that Hadoop stores next to a file of these contents."""
    sums = [zlib.crc32(data[first : first + 512]) for first in range(0, len(data), 512)]
    return b"crc\0" + struct.pack(f">{len(sums) + 1}I", 512, *sums)


def leftovers(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if LEFTOVER.fullmatch(path.name)]


def reported(message: str) -> list[str]:
    """The lines on stderr that are errors; totals may follow them."""
    return [line for line in message.splitlines() if line.startswith("error: ")]


def table(seed: int, rows: int = 600) -> pa.Table:
    ids = np.random.default_rng(seed).integers(0, 5_000, rows)
    return pa.table({"id": ids, "name": [f"{seed} {number % 200}" for number in range(rows)]})


def checksummed(path: Path) -> None:
    """Give a file what Hadoop keeps beside it."""
    path.with_name(f".{path.name}.crc").write_bytes(checksums(path.read_bytes()))


@dataclass
class Scenario:
    """A command on files.

    Attributes
    ----------
    name : identifies the scenario.
    arguments : of the command; its working directory is not the folder: {} is replaced by that.
    rules : that always hold: what this machine's file system shall not have.
    """

    name: str
    arguments: Sequence[str]
    rules: Sequence[Rule] = ()
    kept: ClassVar[str] = "lake/1.parquet"
    """A file that is there before and after, and whose mode stays what it was."""

    def prepare(self, folder: Path) -> None:
        """Lay out the files before the command, which every run gets a copy of."""
        for number in (1, 2):
            path = folder / "lake" / f"{number}.parquet"
            path.parent.mkdir(exist_ok=True)
            pq.write_table(table(number), path, row_group_size=200)
        one = folder / "lake" / "1.parquet"
        if "drop" in self.arguments or "lake/old" in self.name:
            parquet_bloom.embed(one, ["id", "name"])
        shutil.copy(one, folder / "there.parquet")
        one.chmod(0o640)
        checksummed(one)

    def command(self, folder: Path) -> list[str]:
        return [argument.format(folder) for argument in self.arguments]

    def state(self, folder: Path) -> dict[str, bytes]:
        """The files, but for what is left over, and checksums: there may be none at any time."""
        results = {}
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not LEFTOVER.fullmatch(path.name) and not path.name.endswith(".crc"):
                results[str(path.relative_to(folder))] = path.read_bytes()
        return results

    def is_intact(self, folder: Path, before: State, after: State) -> bool:
        """Assert that each file is its old or its new self; returns whether all are new."""
        assert isinstance(before, dict)
        assert isinstance(after, dict)
        result = self.state(folder)
        assert before.keys() - result.keys() <= before.keys() - after.keys()
        for name, data in result.items():
            assert data in (before.get(name), after.get(name)), f"{name}: {len(data)} bytes"
        for crc in folder.rglob(".*.crc"):
            if not LEFTOVER.fullmatch(crc.name):
                data = result[str(crc.with_name(crc.name[1:-4]).relative_to(folder))]
                assert crc.read_bytes() == checksums(data), "a stale checksum file"
        retained = folder / self.kept
        assert retained.stat().st_mode & 0o777 == 0o640
        return result == after

    def verify(self, folder: Path) -> None:
        """Assert that what the undisturbed command has made is right."""
        for path in folder.rglob("[!.]*.parquet"):
            assert main(["verify", "--data", str(path), "--format", "csv"]) == 0
        for number in (1, 2):
            assert pq.read_table(folder / "lake" / f"{number}.parquet").equals(table(number))

    def swept(self, folder: Path) -> None:
        """Assert that what was left over is found and goes, and hides nothing."""
        if leftovers(folder):
            assert main(["sweep", str(folder), "--format", "csv"]) == 0
        assert not leftovers(folder)


class EraseScenario(Scenario):
    """A command that takes rows out of the files of a lake; the rows of a row group, and some of another."""

    def verify(self, folder: Path) -> None:
        for number in (1, 2):
            rows = pq.read_table(folder / "lake" / f"{number}.parquet")
            assert rows.equals(table(number).filter(pc.field("id") >= 700))


class FromLakeScenario(Scenario):
    """A command that makes something of a lake, which is never changed and so is shared by all runs."""

    kept = "there.parquet"

    def prepare(self, folder: Path) -> None:
        lake = self.lake(folder)
        if not lake.exists():
            lake.mkdir()
            for number in range(4):
                pq.write_table(table(number, 60), lake / f"{number}.parquet", row_group_size=20)
        shutil.copy(lake / "0.parquet", folder / "there.parquet")
        (folder / "there.parquet").chmod(0o640)

    def lake(self, folder: Path) -> Path:
        return folder.parent / "lake"

    def command(self, folder: Path) -> list[str]:
        return [argument.format(folder, lake=self.lake(folder)) for argument in self.arguments]

    def verify(self, folder: Path) -> None:
        for path in folder.iterdir():
            result = feather.read_table(path) if path.suffix == ".arrow" else pq.read_table(path)
            assert result.num_rows > 0


class IndexScenario(FromLakeScenario):
    """A command on an index."""

    settings: ClassVar[dict[str, Any]] = {"layout": "postings"}
    columns: ClassVar[list[str]] = ["id"]

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        lake = self.lake(folder)
        (folder / "home").mkdir()
        if "create" in self.arguments:
            return
        with LakeIndex.create(str(folder / "home" / "index"), self.columns, **self.settings) as index:
            if self.name.startswith("first"):
                return
            index.append([lake / "0.parquet", lake / "1.parquet"])
            if "compact" in self.arguments:
                index.append([lake / "2.parquet"])
                index.remove(lake / "0.parquet")

    def state(self, folder: Path) -> State:  # type: ignore[override]
        """The answer for each value, and what the index knows."""
        path = folder / "home" / "index"
        if not any(path.glob("manifest-*")):
            return None
        values = sorted({value for number in range(4) for value in table(number, 60)["id"].to_pylist()})
        with LakeIndex.open(str(path)) as index:
            matches: list[Any] = []
            for column in index.columns:
                if column.startswith("grams"):
                    pruners = [IndexPruner(index.state, Like("name", f"%{number} 1%")) for number in range(4)]
                    left = [[*pruner.live()] if pruner.useful else [] for pruner in pruners]
                    matches += [sorted((path, one.read, str(one.row_groups)) for path, one in each) for each in left]
                    assert not any(pruner.doubts for pruner in pruners)
                    continue
                answers = index.lookup(column, list(map(str, values)) if column.startswith("CAST") else values)
                assert answers.doubts == []
                matches += [sorted((each.path, str(each.rows)) for each in answer) for answer in answers]
            manifest = index.state.manifest
            return matches, manifest.num_files, len(manifest.segments), manifest.columns, dict(manifest.lake)

    def is_intact(self, folder: Path, before: State, after: State) -> bool:
        result = self.state(folder)
        assert result in (before, after)
        return result == after

    def verify(self, folder: Path) -> None:
        with LakeIndex.open(str(folder / "home" / "index")) as index:
            assert index.check(sample=4).problems == []

    def swept(self, folder: Path) -> None:
        """An index sweeps itself, when it is written the next time."""
        path = folder / "home" / "index"
        strays = [each.name for each in path.glob(".*")]
        assert all(map(LEFTOVER.fullmatch, strays)), strays
        assert not any(name.endswith(".old") for name in strays)
        if not any(path.glob("manifest-*")):
            return
        with LakeIndex.open(str(path)) as index:
            index.append(self.lake(folder))
            index.compact(keep_seconds=0)
            assert index.unindexed == []
            assert index.check(sample=2).problems == []
        names = sorted(os.listdir(path))
        assert [name.rpartition(".")[2] for name in names if not name.startswith("manifest")].count("files") == 1
        assert len([name for name in names if name != "writer.lock"]) == 2 + len(self.columns), names


class CuckooScenario(IndexScenario):
    settings: ClassVar[dict[str, Any]] = {"layout": "cuckoo", "num_buckets": 40}


class ZoneScenario(IndexScenario):
    """Rows are named, and one key is an expression."""

    settings: ClassVar[dict[str, Any]] = {"granularity": "zone", "zone_rows": 7}
    columns: ClassVar[list[str]] = ["id", "CAST(id AS STRING)"]


class GramScenario(IndexScenario):
    """The first append learns weights, which the manifest has from then on."""

    settings: ClassVar[dict[str, Any]] = {"granularity": "row_group"}
    columns: ClassVar[list[str]] = ["grams(name)"]


class LateGramScenario(GramScenario):
    """Files without a text are indexed, so that an append learns other weights than the index has."""

    def prepare(self, folder: Path) -> None:
        super().prepare(folder)
        pq.write_table(table(9, 5).set_column(1, "name", pa.nulls(5, pa.string())), folder / "empty.parquet")
        with LakeIndex.open(str(folder / "home" / "index")) as index:
            index.append(folder / "empty.parquet")


EMBED = ["embed", "{}/lake/1.parquet", "--column", "id", "--fpp", "0.1", "--in-place"]
ERASE = ["erase", "{}/lake", "--where", "id < 700", "--in-place", "--yes"]
FILES = [
    Scenario("embed", EMBED),
    Scenario("embed without exchange", EMBED, NO_EXCHANGE),
    Scenario("embed again, lake/old", [*EMBED, "--replace"]),
    Scenario("embed two to a folder", ["embed", "{}/lake", "--column", "id", "-o", "{}/out/"]),
    Scenario("embed over another", ["embed", "{}/lake/1.parquet", "--column", "id", "-o", "{}/there.parquet"]),
    Scenario("drop", ["drop", "{}/lake/1.parquet", "--in-place"]),
    Scenario("drop a column, old kernel", ["drop", "{}/lake/1.parquet", "--column", "id", "--in-place"], OLD_KERNEL),
    Scenario("drop to", ["drop", "{}/lake/1.parquet", "-o", "{}/there.parquet"]),
    EraseScenario("erase", ERASE),
    EraseScenario("erase without exchange", ERASE, NO_EXCHANGE),
    FromLakeScenario("zones build", ["zones", "build", "{lake}", "--column", "id", "-o", "{}/ids.zones.arrow"]),
    FromLakeScenario("zones over another", ["zones", "build", "{lake}", "--column", "id", "-o", "{}/there.parquet"]),
    FromLakeScenario("find to", ["find", "{lake}", "--where", "id < 9", "-o", "{}/there.parquet"]),
]
APPEND = ["index", "append", "{}/home/index", "{lake}", "--memory-limit", "1KB"]
INDEXES = [
    IndexScenario("index create", ["index", "create", "{}/home/index", "--column", "id", "--lake", "{lake}"]),
    IndexScenario("first index append", APPEND),
    IndexScenario("index append", APPEND),
    IndexScenario("index append without rename_new", APPEND, NO_EXCHANGE),
    IndexScenario("index remove", ["index", "remove", "{}/home/index", "{lake}/0.parquet"]),
    IndexScenario("index compact", ["index", "compact", "{}/home/index", "--keep-seconds", "0"]),
    ZoneScenario("zone index append", APPEND),
    ZoneScenario("zone index compact", ["index", "compact", "{}/home/index", "--keep-seconds", "0"]),
    GramScenario("grams create", ["index", "create", "{}/home/index", "--column", "grams(name)", "--lake", "{lake}"]),
    GramScenario("first grams append", APPEND),
    LateGramScenario("first late grams append", APPEND),
    GramScenario("grams append", APPEND),
    GramScenario("grams compact", ["index", "compact", "{}/home/index", "--keep-seconds", "0"]),
    CuckooScenario("first cuckoo index append", APPEND),
    CuckooScenario("cuckoo index append", APPEND),
    CuckooScenario("cuckoo index compact", ["index", "compact", "{}/home/index", "--keep-seconds", "0"]),
]
SCENARIOS = {scenario.name: scenario for scenario in [*FILES, *INDEXES]}


class Stage:
    """A scenario on its stage: laid out, run once undisturbed, ready for as many runs as are wanted.

    Attributes
    ----------
    before, after : states of the folder.
    undisturbed : the run in between.
    """

    def __init__(self, scenario: Scenario, commands: Commands, root: Path) -> None:
        self.scenario = scenario
        self._commands = commands
        self._root = root
        self._template = root / "template"
        self._template.mkdir()
        self._scratch = root / "scratch"
        self._scratch.mkdir()
        scenario.prepare(self._template)
        folder = self.fresh()
        self.before = scenario.state(folder)
        self.undisturbed = self.run(folder)
        assert self.undisturbed.code in (0, 1), self.undisturbed.err
        self.after = scenario.state(folder)
        assert self.after != self.before
        scenario.verify(folder)
        assert not leftovers(folder)
        self.discard(folder)

    def fresh(self) -> Path:
        """A folder as it was before the command. It has one path for all runs, as files may contain their names."""
        folder = self._root / "stage"
        shutil.copytree(self._template, folder, symlinks=True)
        return folder

    def discard(self, folder: Path) -> None:
        shutil.rmtree(folder)

    def run(self, folder: Path, *rules: Rule, **more: object) -> Outcome:
        """Run the command, with rules of this run beside the scenario's."""
        arguments = self.scenario.command(folder)
        return self._commands.run(arguments, [folder, self._scratch], [*self.scenario.rules, *rules], **more)  # type: ignore[arg-type]

    def number_of(self, name: str, ending: str = "") -> int:
        """The number of the last call of a name that gives a file a name, or whose file has one, with an ending."""
        calls = self.undisturbed.calls
        return max(call.number for call in calls if call.name == name and (call.other or call.path).endswith(ending))

    def again(self, folder: Path, complete: bool) -> None:
        """After whatever has happened: the command does its work, and nothing is left over."""
        if not complete:
            done = self.run(folder)
            assert done.code in (0, 1), done.err
            assert self.scenario.is_intact(folder, self.after, self.after)
        self.scenario.swept(folder)


def moments(calls: Sequence[Call]) -> list[tuple[int, int]]:
    """(number, when) of all that can be cut: before and after each call, and amid each that writes."""
    return [(call.number, when) for call in calls for when in range(3) if when != HALF or f",{call.name}," in WRITES]

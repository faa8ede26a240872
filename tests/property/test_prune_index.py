"""Random lakes under random predicates: with an index of the lake the rows are those that are found without one.

The lakes are what an index has to bear: columns of other types in other files, columns that are missing or spelled in
another case, lists and structs, folders that give columns, files that came, went or were changed since, filters that
were embedded, and indexes that are damaged. `hunting` says how to go on with it.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.oracle.ranked import Ranked
from support.random_cases.hunting import seeds
from support.random_cases.random_predicates import draw_predicate
from support.writers import random_files
from support.writers.peers import VALUES, arrow_array

import parquet_bloom
from parquet_bloom.errors import BrokenIndexError, PredicateError, StorageError, UnknownColumnError
from parquet_bloom.lake import cuckoo_reader, layouts, segment
from parquet_bloom.lake.index_part import PartMatches
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.predicate import tree
from parquet_bloom.predicate.tree import And, Contains, Node, NotContains, Or
from parquet_bloom.scan.row_reader import RowReader

LAKES = 5  # of the default suite
PREDICATES = 12
FAMILIES = [
    ["i32", "i64", "u32", "i16", "u8", "u64"],
    ["f32", "f64", "f16"],
    ["d4", "d9", "d18", "d38"],
    ["str", "large_str", "dict_str", "str"],
    ["bin", "flba"],
    ["ts_ms", "ts_us", "ts_ns", "ts_s"],
    ["tz_ms", "tz_us", "tz_ns"],
    ["date"],
    ["time_ms", "time_us", "time_ns"],
    ["uuid"],
    ["bool"],
    ["st"],
    ["li"],
]
LAYOUTS = ["postings", "cuckoo"] if hasattr(cuckoo_reader.CuckooReader, "find") else ["postings"]


@dataclass
class Lake:
    """A folder of files, and what predicates may be about.

    Attributes
    ----------
    kinds : {column: the kinds that it has in files}.
    pools : {column and kind: values that files hold, and such as none does}.
    folders : {name: values} of the columns that folders give.
    both : whether files may have one name in two cases.
    """

    root: Path
    rng: random.Random
    kinds: dict[str, list[str]]
    folders: dict[str, list[int]]
    both: bool
    pools: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    count: int = 0

    def write(self, path: Path | None = None) -> Path:
        """A new file somewhere, or another one in a place."""
        rng = self.rng
        rows = rng.choice([0, 1, 7, 40, 90])
        columns: dict[str, pa.Array] = {"row": pa.array(np.arange(rows) + 1000 * self.count, pa.int64())}
        for name, kinds in self.kinds.items():
            for spelled in self._spellings(name):
                kind = rng.choice(kinds)
                pool = [*VALUES[kind].always, *(VALUES[kind].draw(rng) for _ in range(rng.choice([1, 10, 50])))]
                self.pools.setdefault((name, kind), []).extend(rng.sample(pool, min(4, len(pool))))
                picks = np.random.default_rng(rng.randrange(2**32)).integers(0, len(pool), rows)
                columns[spelled] = arrow_array(pool, VALUES[kind].arrow).take(pa.array(picks, pa.int64()))
        if path is None:
            folder = self.root
            for name, values in self.folders.items():
                folder /= f"{name}={rng.choice(values)}"
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{self.count}.parquet"
        self.count += 1
        new = path.with_name(f"_{path.name}")
        random_files.by_pyarrow(rng, pa.table(columns), new, rng.choice([5, 20, 100]))
        if rng.random() < 0.3:
            shutil.copyfile(new, path)  # the same file, other bytes
            new.unlink()
        else:
            new.rename(path)
        return path

    def _spellings(self, name: str) -> list[str]:
        choice = self.rng.random()
        if choice < 0.12:
            return []
        if choice < 0.2:
            return [name.upper()]
        return [name, name.upper()] if self.both and choice < 0.3 else [name]

    def files(self) -> list[Path]:
        return sorted(path for path in self.root.rglob("*.parquet") if not path.name.startswith("_"))

    def predicate(self) -> Node:
        rng = self.rng
        leaves = [name for name in self.kinds if name != "li"]
        ranked = [one for name in leaves for one in self._ranked(name)]
        ranked += [
            Ranked(name, "i64", pa.int64(), [*values, 99], np.zeros(1, np.intp))
            for name, values in self.folders.items()
        ]
        drawn = [draw_predicate(rng, ranked) for _ in range(6)] if ranked else []
        points = [one.node for one in drawn if one.point and rng.random() < 0.7]
        node = (points or [one.node for one in drawn] or [self._contains()])[0]
        if "li" in self.kinds and rng.random() < 0.4:
            node = rng.choice([And, Or])((node, self._contains()))
        if rng.random() < 0.3:
            node = rng.choice([And, Or])((node, draw_predicate(rng, ranked).node if ranked else self._contains()))
        return node

    def _ranked(self, name: str) -> list[Ranked]:
        kind = self.rng.choice(self.kinds[name])
        pool = self.pools.get((name, kind)) or [None]
        if kind == "st":
            a = [value and value["a"] for value in pool]
            c = [value and value["b"] and value["b"]["c"] for value in pool]
            return [
                Ranked(f"{name}.a", "i32", pa.int32(), a, np.zeros(1, np.intp)),
                Ranked(f"{name}.b.c", "str", pa.string(), c, np.zeros(1, np.intp)),
            ]
        return [Ranked(name, kind, VALUES[kind].arrow, pool, np.zeros(1, np.intp))]

    def _contains(self) -> Node:
        stored_values = [value for one in self.pools.get(("li", "li"), []) for value in one or () if value is not None]
        value = self.rng.choice([*stored_values, 5, 1])
        return self.rng.choice([Contains, Contains, NotContains])("li", value)


def draw_lake(rng: random.Random, root: Path) -> Lake:
    families = rng.sample(FAMILIES, rng.randint(2, 4))
    kinds = {"li" if family == ["li"] else f"c{number}": family for number, family in enumerate(families)}
    for name, family in kinds.items():
        kinds[name] = family if rng.random() < 0.3 else [rng.choice(family)]
    names = rng.choice([[], [], ["p"], ["p", "q"], [rng.choice([name for name in kinds if name != "li"])]])
    folders = {name: [1, 2, -3] for name in names}
    lake = Lake(root, rng, kinds, folders, rng.random() < 0.3)
    root.mkdir()
    for _ in range(rng.randint(2, 7)):
        lake.write()
    return lake


def indexed_columns(lake: Lake) -> list[str]:
    results = []
    for name, kinds in lake.kinds.items():
        results += [f"{name}.a", f"{name}.b.c"] if kinds == ["st"] else [name]
    some = lake.rng.sample(results, lake.rng.randint(1, len(results)))
    return [name.upper() if lake.rng.random() < 0.1 else name for name in some]


def make_index(lake: Lake, path: Path) -> LakeIndex:
    rng = lake.rng
    layout = rng.choice(LAYOUTS)
    settings: dict[str, Any] = {"num_buckets": rng.choice([3, 40])}
    if layout == layouts.POSTINGS:  # with few bits, so that much is named in vain
        settings = {"remainder_bits": rng.choice([1, 8, 12]), "expected_values": rng.choice([100, 1000, 10**6])}
    units: dict[str, Any] = {"granularity": rng.choice(["file", "row_group", "zone"])}
    if units["granularity"] == "zone":
        units["zone_rows"] = rng.choice([1, 6, 20, 64])
    index = LakeIndex.create(path, indexed_columns(lake), layout=layout, **units, **settings)
    some = lake.files()[: rng.choice([1, 3, 99])]
    with suppress(UnknownColumnError):  # an index of no file
        index.append(rng.choice([lake.root, some]))
        if rng.random() < 0.5:
            index.append(lake.root)
    return index


def change(lake: Lake, index: LakeIndex) -> str:
    """Let something happen to the lake or the index."""
    rng, files = lake.rng, lake.files()
    time.sleep(0.02)  # a tick of the clock that files are dated by
    happens = rng.choice(["add", "remove", "rewrite", "swap", "embed", "append", "forget", "compact", "nothing"])
    one = rng.choice(files)
    if happens == "add":
        lake.write()
    elif happens == "remove" and len(files) > 1:
        one.unlink()
    elif happens == "rewrite":
        lake.write(one)
    elif happens == "swap":
        shutil.copyfile(one, rng.choice([path for path in files if path != one] or [one.with_name("x.parquet")]))
    elif happens == "embed":
        random_files.embed(rng, one)
    elif happens == "append":
        with suppress(UnknownColumnError):  # no file that is new has one of the columns
            index.append(lake.root)
    elif happens == "forget":
        with suppress(StorageError):  # it was not in there
            index.remove([str(one)])
    elif happens == "compact":
        index.compact()
    return happens


def damage(rng: random.Random, folder: Path) -> None:
    """Change, cut or remove a file of the index."""
    path = rng.choice(sorted(path for path in folder.iterdir() if path.name != "writer.lock"))
    data = bytearray(path.read_bytes())
    how = rng.random()
    if how < 0.2 and not path.name.startswith("manifest-"):  # without the newest, an older one holds
        path.unlink()
    elif how < 0.4 or not data:
        path.write_bytes(data[: rng.randrange(len(data) + 1)])
    else:
        for _ in range(rng.choice([1, 1, 20])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)


def rows_of(paths: Any, node: Node, ignore_case: bool, **index: Any) -> tuple[list[int], Any]:
    report = parquet_bloom.prune(paths, node, case_sensitive=not ignore_case, **index)
    _, batches = RowReader(report, ["row"]).read_batches()
    return sorted(row for batch in batches for row in batch["row"].to_pylist()), report


def check(lake: Lake, node: Node, index: LakeIndex, counts: Counter[str], damaged: bool) -> None:
    rng = lake.rng
    ignore_case = rng.random() < 0.4
    if ignore_case and rng.random() < 0.5:
        node = tree.rename_columns(node, {name: rng.choice([name, name.upper()]) for name in tree.columns(node)})
    try:
        expected, plain = rows_of(lake.root, node, ignore_case)
    except (PredicateError, UnknownColumnError):
        counts["refused"] += 1
        return
    ways: dict[str, tuple[Any, Any]] = {
        "folder": (lake.root, index.path),
        "open": (lake.root, index),
        "files": ([str(path) for path in lake.files()], index.path),
    }
    if not lake.folders:
        os.chdir(lake.root.parent)
        ways["relative"] = (lake.root.name, index.path)
    if index.state.manifest.lake:
        ways["lake"] = (None, index.path)
    for way in rng.sample(sorted(ways), 2):
        paths, queried = ways[way]
        try:
            result, report = rows_of(paths, node, ignore_case, index=queried)
        except (BrokenIndexError, StorageError):
            assert damaged
            assert paths is None  # else nothing would be ruled out
            counts["damaged"] += 1
            continue
        assert result == expected, f"{way}: {node} {ignore_case=}; {report.explain()}"
        counts["asked"] += 1
        counts["matched"] += bool(expected)
        counts["files"] += report.total_files
        counts["ruled out"] += report.unopened_by.get("index", 0)
        counts["row groups"] += sum(count for by, count in report.skipped_by.items() if by == "index")
        counts["doubts"] += bool(report.index_doubts)
        assert damaged or not report.index_doubts
        assert report.selected_row_groups <= plain.selected_row_groups or way == "files"


def hunt(seed: int, folder: Path, counts: Counter[str]) -> None:
    rng = random.Random(f"prune index {seed}")
    folder.mkdir()
    lake = draw_lake(rng, folder / "lake")
    with make_index(lake, folder / "index") as index:
        happened = []
        for _ in range(rng.randint(0, 3)):
            happened.append(change(lake, index))
        if rng.random() < 0.3:
            index.refresh()
        damaged = rng.random() < 0.25
        if damaged:
            damage(rng, folder / "index")
        for _ in range(PREDICATES):
            node = lake.predicate()
            try:
                check(lake, node, index, counts, damaged)
            except Exception as error:
                error.add_note(f"seed {seed}: {node}; {happened}, {lake.kinds}, {index!r}")
                raise
    shutil.rmtree(folder)


def test_with_an_index_the_rows_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parquet_bloom.file.identity.SETTLED_NS", -1)  # `change` waits for the clock's next tick
    monkeypatch.chdir(tmp_path)
    counts: Counter[str] = Counter()
    for seed in seeds(LAKES):
        hunt(seed, tmp_path / str(seed), counts)
    print(dict(counts))
    assert counts["ruled out"] > counts["files"] / 10  # else nothing was shown
    assert counts["matched"] > counts["asked"] / 10


def test_an_index_that_lies_does_not_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parquet_bloom.file.identity.SETTLED_NS", -1)
    monkeypatch.chdir(tmp_path)
    find = segment.OpenPart.find

    def few(part: segment.OpenPart, hashes: Any) -> PartMatches:
        matches = find(part, hashes)
        keep = matches.units % 2 == 0
        return replace(matches, queries=matches.queries[keep], units=matches.units[keep])

    monkeypatch.setattr(segment.OpenPart, "find", few)

    def hunted() -> None:
        for seed in range(50):
            hunt(seed, tmp_path / str(seed), Counter())

    with pytest.raises(AssertionError):
        hunted()

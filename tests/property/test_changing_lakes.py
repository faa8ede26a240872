"""Random lakes that change: with an index and with zones the rows are those that are found without.

The lakes are what these have to bear: columns of other types in other files, columns that are missing or spelled in
another case, lists and structs, folders that give columns, files that came, went or were changed since, filters that
were embedded, and indexes that are damaged. `hunting` says how to go on with it.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle.ranked import Ranked
from support.random_cases.hunting import seeds
from support.random_cases.random_predicates import draw_predicate, draw_text_leaf, has_text
from support.scale import scaled
from support.writers import random_files
from support.writers.peers import VALUES, arrow_array

import parquet_bloom
from parquet_bloom import LakeIndex, zones
from parquet_bloom.errors import ParquetBloomError, PredicateError, StorageError, UnknownColumnError
from parquet_bloom.predicate import tree
from parquet_bloom.predicate.tree import And, Contains, Equal, In, IsNotNull, IsNull, Node, NotContains, Or

SETTLED = 2.2  # seconds, after which a file's time shows every change
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


@dataclass
class Lake:
    """A folder of files, an index and zones of it, and what predicates may be about.

    Attributes
    ----------
    kinds : {column: the kinds that it has in files}.
    pools : {column and kind: values that files hold, and such as none does}.
    folders : {name: values} of the columns that folders give.
    both : whether files may have one name in two cases.
    damaged : "index", "zones" or nothing.
    """

    seed: int
    rng: random.Random
    root: Path
    kinds: dict[str, list[str]]
    folders: dict[str, list[int]]
    both: bool
    pools: dict[tuple[str, str], list[Any]] = field(default_factory=dict)
    count: int = 0
    happened: list[str] = field(default_factory=list)
    zones: list[str] = field(default_factory=list)
    damaged: str = ""

    @property
    def index(self) -> Path:
        return self.root.with_name("index")

    @property
    def files(self) -> list[Path]:
        return sorted(path for path in self.root.rglob("*.parquet") if not path.name.startswith("_"))

    @property
    def leaves(self) -> list[str]:
        """The columns that can be indexed."""
        return [
            leaf
            for name, kinds in self.kinds.items()
            for leaf in ([f"{name}.a", f"{name}.b.c"] if kinds == ["st"] else [name])
        ]

    def write(self, path: Path | None = None) -> None:
        """Write a new file somewhere, or another one in a place."""
        rng = self.rng
        rows = rng.choice([0, 1, 7, 40, 90])
        columns: dict[str, pa.Array] = {"row": pa.array(np.arange(rows) + 1000 * self.count, pa.int64())}
        for name, kinds in self.kinds.items():
            choice = rng.random()
            spelled = [name]
            if choice < 0.2:
                spelled = [] if choice < 0.12 else [name.upper()]
            elif self.both and choice < 0.3:
                spelled.append(name.upper())
            for one in spelled:
                kind = rng.choice(kinds)
                pool = [*VALUES[kind].always, *(VALUES[kind].draw(rng) for _ in range(rng.choice([1, 10, 50])))]
                self.pools.setdefault((name, kind), []).extend(rng.sample(pool, min(4, len(pool))))
                picks = np.random.default_rng(rng.randrange(2**32)).integers(0, len(pool), rows)
                columns[one] = arrow_array(pool, VALUES[kind].arrow).take(pa.array(picks, pa.int64()))
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

    def make_index(self) -> None:
        rng = self.rng
        settings: dict[str, Any] = {"layout": "cuckoo", "num_buckets": rng.choice([3, 40])}
        if rng.random() < 0.5:  # with few bits, so that much is named in vain
            settings = {"remainder_bits": rng.choice([1, 8, 12]), "expected_values": rng.choice([100, 1000, 10**6])}
        settings["granularity"] = rng.choice(["file", "row_group", "zone"])
        if settings["granularity"] == "zone":
            settings["zone_rows"] = rng.choice([1, 6, 20, 64])
        some = rng.sample(self.leaves, rng.randint(1, len(self.leaves)))
        names = [name.upper() if rng.random() < 0.1 else name for name in some]
        if "layout" not in settings:
            texts = [leaf for leaf in self.leaves if self._is_text(leaf)]
            names += [rng.choice(["grams({})", "grams(lower({}))"]).format(leaf) for leaf in texts]
        with LakeIndex.create(self.index, names, **settings) as index, suppress(UnknownColumnError):
            index.append(rng.choice([self.root, self.files[: rng.choice([1, 3, 99])]]))
            if rng.random() < 0.5:
                index.append(self.root)

    def _is_text(self, leaf: str) -> bool:
        return leaf.endswith(".b.c") or bool({"str", "large_str", "dict_str"}.intersection(self.kinds.get(leaf, [])))

    def make_zones(self) -> None:
        """Make zone indexes of some columns; of one perhaps several, of a few files each."""
        rng, files = self.rng, self.files
        for column in rng.sample(self.leaves, rng.randint(1, min(3, len(self.leaves)))):
            cut = rng.randint(0, len(files))
            for some in rng.choice([[files], [files[:cut], files[cut:]], [files, files[cut:]]]):
                target = self.root.with_name(f"zones-{len(self.zones)}.{rng.choice(['parquet', 'arrow'])}")
                sizes = {"rows_per_zone": rng.choice([1, 2, 7, 8, 30, 8192]), "fpp": rng.choice([0.5, 0.05, 0.00057])}
                with suppress(ParquetBloomError):  # no file has the column, or it is of a type that has no zones
                    zones.build([str(path) for path in some], column, target, **sizes)
                    self.zones.append(str(target))

    def change(self, happens: str) -> None:
        """Let something happen to the lake, the index or the zones."""
        rng, files = self.rng, self.files
        one = rng.choice(files)
        self.happened.append(happens)
        if happens == "add":
            self.write()
        elif happens == "remove" and len(files) > 1:
            one.unlink()
        elif happens == "rewrite":
            self.write(one)
        elif happens == "swap":
            shutil.copyfile(one, rng.choice([path for path in files if path != one] or [one.with_name("x.parquet")]))
        elif happens == "embed":
            random_files.embed(rng, one)
        elif happens == "touch":
            os.utime(one)
        elif happens == "restore":
            shutil.copyfile(one, one.with_name("_copy"))
            one.with_name("_copy").rename(one)
        elif happens in ("append", "forget", "compact", "refresh"):
            # No file that is new has one of the columns; a file was not in there.
            with LakeIndex.open(self.index) as index, suppress(UnknownColumnError, StorageError):
                if happens == "append":
                    index.append(self.root)
                elif happens == "forget":
                    index.remove([str(one)])
                else:
                    getattr(index, happens)()
        elif happens == "damage":
            self.damaged = rng.choice(["index", "zones"] if self.zones else ["index"])
            some = [path for path in self.index.iterdir() if path.name != "writer.lock"]
            damage(rng, rng.choice(sorted(some)) if self.damaged == "index" else Path(rng.choice(self.zones)))

    def draw_predicate(self) -> Node:
        """Draw any predicate, often one that asks a column for few values, nulls among them."""
        rng = self.rng
        ranked = [one for name in self.kinds if name != "li" for one in self._rank(name)]
        ranked += [
            Ranked(name, "i64", pa.int64(), [*values, 99], np.zeros(1, np.intp))
            for name, values in self.folders.items()
        ]
        drawn = [draw_predicate(rng, ranked) for _ in range(6)] if ranked else []
        texts = [one for one in ranked if self._is_text(one.name) and has_text(one)]
        if texts and rng.random() < 0.4:
            return draw_predicate(rng, texts, rng.choice([0, 3]), draw_text_leaf).node
        points = [one.node for one in drawn if one.point and rng.random() < 0.7]
        node = (points or [one.node for one in drawn] or [self._draw_contains()])[0]
        if ranked and rng.random() < 0.5:
            node = self._draw_point(rng.choice(ranked))
        if "li" in self.kinds and rng.random() < 0.4:
            node = rng.choice([And, Or])((node, self._draw_contains()))
        if rng.random() < 0.3:
            node = rng.choice([And, Or])((node, drawn[1].node if drawn else self._draw_contains()))
        return node

    def _rank(self, name: str) -> list[Ranked]:
        kind = self.rng.choice(self.kinds[name])
        pool = self.pools.get((name, kind)) or [None]
        leaves = {name: (kind, VALUES[kind].arrow, pool)}
        if kind == "st":
            a = [value and value["a"] for value in pool]
            c = [value and value["b"] and value["b"]["c"] for value in pool]
            leaves = {f"{name}.a": ("i32", pa.int32(), a), f"{name}.b.c": ("str", pa.string(), c)}
        return [Ranked(leaf, *of, np.zeros(1, np.intp)) for leaf, of in leaves.items()]

    def _draw_point(self, column: Ranked) -> Node:
        values = self.rng.sample(column.values, min(len(column.values), self.rng.choice([1, 1, 1, 3])))
        try:
            if not values:
                return self.rng.choice([IsNull, IsNull, IsNotNull])(column.name)
            return Equal(column.name, values[0]) if len(values) == 1 else In(column.name, tuple(values))
        except PredicateError:  # the value is not a literal
            return IsNull(column.name)

    def _draw_contains(self) -> Node:
        values = [value for one in self.pools.get(("li", "li"), []) for value in one or () if value is not None]
        return self.rng.choice([Contains, Contains, NotContains])("li", self.rng.choice([*values, 5, 1]))


def draw_lake(seed: int, folder: Path) -> Lake:
    rng = random.Random(f"changing {seed}")
    kinds = {}
    for number, family in enumerate(rng.sample(FAMILIES, rng.randint(2, 4))):
        name = "li" if family == ["li"] else f"c{number}"
        kinds[name] = family if rng.random() < 0.3 else [rng.choice(family)]
    names = rng.choice([[], [], ["p"], ["p", "q"], [rng.choice([name for name in kinds if name != "li"])]])
    root = folder / str(seed) / "lake"
    lake = Lake(seed, rng, root, kinds, {name: [1, 2, -3] for name in names}, rng.random() < 0.3)
    root.mkdir(parents=True)
    for _ in range(rng.randint(2, 7)):
        lake.write()
    return lake


def damage(rng: random.Random, path: Path) -> None:
    """Change, cut or remove a file of an index; without its newest manifest an older one would hold."""
    data, how = bytearray(path.read_bytes()), rng.random()
    if how < 0.2 and path.parent.name == "index" and not path.name.startswith("manifest-"):
        path.unlink()
    elif how < 0.4 or not data:
        path.write_bytes(data[: rng.randrange(len(data) + 1)])
    else:
        for _ in range(rng.choice([1, 1, 20])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)


def test_rows_are_the_same_with_an_index_and_zones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tally: Counter[str] = Counter()

    def find(paths: Any, node: Node, ignore_case: bool, **options: Any) -> tuple[list[int], Any]:
        options["case_sensitive"] = not ignore_case
        rows = parquet_bloom.read_table(paths, node, ["row"], **options)["row"].to_pylist()
        return sorted(rows), parquet_bloom.prune(paths, node, **options)

    def ask(lake: Lake) -> None:
        rng, node, ignore_case = lake.rng, lake.draw_predicate(), lake.rng.random() < 0.4
        lake.happened.append(str(node)[:300])
        if ignore_case and rng.random() < 0.5:
            node = tree.rename_columns(node, {name: rng.choice([name, name.upper()]) for name in tree.columns(node)})
        try:
            expected, plain = find(lake.root, node, ignore_case)
        except (PredicateError, UnknownColumnError):
            tally["refused"] += 1
            return
        monkeypatch.chdir(lake.root.parent)
        with ExitStack() as stack:
            is_open = rng.random() < 0.5
            index: Any = lake.index
            if is_open and lake.damaged != "index":
                index = stack.enter_context(LakeIndex.open(lake.index))
            asked: Any = lake.zones
            if is_open and lake.damaged != "zones":
                asked = [stack.enter_context(zones.open(path)) for path in lake.zones]
            ways: list[tuple[Any, dict[str, Any]]] = [
                (lake.root, {"index": index}),
                (lake.root, {"zones": asked}),
                (lake.root, {"index": index, "zones": asked}),
            ]
            if not lake.folders:
                ways.append((lake.root.name, {"index": index}))
                ways.append(([str(path) for path in lake.files], {"index": index}))
            for paths, options in rng.sample(ways, 2):
                found, report = find(paths, node, ignore_case, **options)
                assert found == expected, f"{options} {ignore_case=}; {report.explain()}"
                tally.update(asked=1, matched=bool(expected), files=report.total_files)
                tally["by index"] += report.unopened_by.get("index", 0)
                tally["by zones"] += report.skipped_by.get("zones", 0)
                tally["narrowed"] += any(one.rows is not None for file in report.files for one in file.row_groups)
                assert lake.damaged == "index" or not report.index_doubts
                assert lake.damaged == "zones" or not any("checksum" in doubt for doubt in report.zone_doubts)
                assert report.selected_row_groups <= plain.selected_row_groups or isinstance(paths, list)

    def look_up(lake: Lake) -> None:
        """Look keys up by the index, as `=` finds them without it."""
        ranked = [one for name in lake.kinds if name != "li" for one in lake._rank(name) if one.values]
        if not ranked or lake.damaged == "index" or lake.folders or lake.both:
            return
        column = lake.rng.choice(ranked)
        values = lake.rng.sample(column.values, 1)
        lake.happened.append(f"{column.name} {values}")
        try:
            dataset, where = parquet_bloom.dataset(lake.root, index=lake.index), Equal(column.name, values[0])
            expected = parquet_bloom.read_table(lake.root, where, ["row"])["row"].to_pylist()
            assert dataset.get(column.name, values, ["row"])["row"].to_pylist() == expected
            places = dataset.locate(column.name, values)
        except ParquetBloomError:  # of files that do not fit together, or values that are not literals, there is none
            return
        rows = [
            pq.read_table(path, columns=["row"])["row"][row].as_py()
            for path, row in zip(places["path"].to_pylist(), places["row"].to_pylist(), strict=True)
        ]
        assert rows == expected
        tally["looked up"] += 1

    lakes = [draw_lake(seed, tmp_path) for seed in seeds(max(8, scaled(3)))]
    time.sleep(SETTLED)
    for lake in lakes:
        lake.make_index()
        lake.make_zones()
    happenings = ["add", "remove", "rewrite", "swap", "embed", "touch", "restore", "nothing"]
    happenings += ["append", "forget", "compact"]
    for lake in lakes:
        for _ in range(lake.rng.randint(0, 3)):
            lake.change(lake.rng.choice(happenings))
        if lake.rng.random() < 0.3:
            lake.change("refresh")
        if lake.rng.random() < 0.25:
            lake.change("damage")
    for count in (2, 10):
        for lake in lakes:
            try:
                for _ in range(count):
                    ask(lake)
                look_up(lake)
            except BaseException as error:
                error.add_note(f"seed {lake.seed}: {lake.happened}, {lake.kinds}, {lake.root}")
                raise
        time.sleep(SETTLED)  # changes are seen before, and known to be all after it
    print(dict(tally))
    assert tally["by index"] > tally["files"] / 15  # else nothing was shown
    assert tally["by zones"]
    assert tally["narrowed"] > tally["asked"] / 40
    assert tally["matched"] > tally["asked"] / 10
    assert tally["looked up"]


def test_an_index_made_anew_knows_all_files(tmp_path: Path) -> None:
    for seed in seeds(2):
        lake = draw_lake(seed, tmp_path)
        lake.make_index()
        for happens in ("rewrite", "add", "swap", "append", "compact"):
            lake.change(happens)
        with LakeIndex.open(lake.index) as index, suppress(UnknownColumnError):
            index.append(lake.root)
            assert index.check(sample=99).problems == []

"""Random scans of random lakes in every public way, held against plain pyarrow's rows, a plain oracle and DuckDB.

pyarrow reads each file whole, before and after it is damaged. Which rows match is worked out by `ranked`, from the
values that were written, and DuckDB is asked about some of the predicates. Rows come in the order of files and rows. A
damaged file may end in an error that names it; rows that come of it are those that it had, or that pyarrow shows.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.fs
from obstore.store import LocalStore, MemoryStore

import parquet_bloom
from parquet_bloom import zones
from parquet_bloom.errors import ParquetBloomError, PredicateError
from parquet_bloom.predicate import And, Or, tree
from support.oracle.ranked import Answer, Ranked, key
from support.random_cases.random_predicates import Drawn, among, comparison, draw_predicate, draw_value, joined
from support.random_cases.scan_lakes import LISTS, ROW, Lake, LakeFile, combine, decode, draw_lake
from support.servers.counted import CountedFileSystem
from support.writers import peers, random_files
from support.writers.peers import bits_of, take_rows

SCANS = 15  # of each lake
_ASK_DUCKDB = 0.25  # share of the predicates
_IN_DUCKDB = {ROW, "st", *random_files.DUCKDB}
_LOOKUPS = ("get", "get_pairs", "locate")
_REMOTE = ("fsspec", "arrow", "memory", "store")


@dataclass
class ScanTally:
    """What came of many scans.

    Attributes
    ----------
    lakes, scans : numbers.
    matched : scans with rows.
    refused : scans whose predicate cannot be evaluated exactly.
    damaged, failed : scans of lakes with a damaged file, and those that ended in an error that names it.
    by_duckdb : predicates that DuckDB was asked about.
    ways, places : scans by how, and by where the files are.
    wrong : differences.
    """

    lakes: int = 0
    scans: int = 0
    matched: int = 0
    refused: int = 0
    damaged: int = 0
    failed: int = 0
    by_duckdb: int = 0
    ways: Counter[str] = field(default_factory=Counter)
    places: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def add(self, other: ScanTally) -> None:
        """Add another tally to this one."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def __str__(self) -> str:
        return (
            f"{self.lakes:,} lakes, {self.scans:,} scans, {self.matched:,} with rows, {self.refused:,} refused, "
            f"{self.by_duckdb:,} also by DuckDB; {self.damaged:,} of damaged files, {self.failed:,} of them failed; "
            f"{len(self.wrong):,} differences"
        )


class Difference(Exception):
    """A scan gave something else."""


def hunt(seed: int, folder: Path, scans: int = SCANS, only: int | None = None) -> ScanTally:
    """Scan a random lake, and compare.

    Parameters
    ----------
    only : number of the one scan that is done.
    """
    tally = ScanTally(lakes=1)
    root = folder / str(seed)
    root.mkdir()
    lake = draw_lake(seed, root)
    with contextlib.closing(_Places(lake, random.Random(f"places of {seed}"))) as places:
        for number in range(scans) if only is None else [only]:
            scan = _Scan(lake, places, random.Random(f"scan {number} of {seed}"), tally)
            try:
                scan.compare()
            except Exception as error:
                where = "" if isinstance(error, Difference) else f" {_last_frames(error)}"
                tally.wrong.append(
                    f"--lake {seed} --scan {number}: {scan.story}: {type(error).__name__}: {str(error)[:600]}{where} "
                    f"| {lake.story[:1000]}"
                )
    if not tally.wrong and only is None:
        shutil.rmtree(root)
    return tally


def _last_frames(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))


class _Places:
    """Where the files of a lake can be read: on disk, or in remote stores of the same content."""

    def __init__(self, lake: Lake, rng: random.Random):
        self.lake = lake
        self.names = [file.path.name for file in lake.files]
        self._cache = parquet_bloom.MetadataCache()
        self._index: Any = None
        self._dataset: Any = None
        alike = all(file.rows.schema.equals(lake.files[0].rows.schema) for file in lake.files)
        if rng.random() < 0.6 and alike and lake.damaged is None and len(lake.rows):
            self._index = self._make_index(rng)
        self._zones: str | None = None
        if rng.random() < 0.15 and alike and lake.damaged is None and len(lake.rows):
            self._zones = self._make_zones(rng)

    def close(self) -> None:
        if self._index is not None:
            self._index.close()

    def _make_index(self, rng: random.Random) -> Any:
        names = [name for name in self.lake.columns if "." not in name]
        columns = rng.sample(names, min(len(names), 2))
        folder = self.lake.folder.with_name(f"{self.lake.folder.name}-index")
        options = {"layout": rng.choice(["postings", "cuckoo"]), "granularity": rng.choice(["row_group", "file"])}
        try:
            index = parquet_bloom.LakeIndex.create(folder, columns, **options)
            index.append([str(file.path) for file in self.lake.files])
        except ParquetBloomError:  # of such types there are no indexes
            return None
        return index

    def _make_zones(self, rng: random.Random) -> str | None:
        output = f"{self.lake.folder}.zones.arrow"
        column = rng.choice(list(self.lake.columns))
        try:
            zones.build(
                [str(file.path) for file in self.lake.files], column, output, rows_per_zone=rng.choice([10, 100])
            )
        except ParquetBloomError:
            return None
        return output

    def draw(self, rng: random.Random, is_lookup: bool) -> tuple[str, Any, dict[str, Any]]:
        """Return a place's name, the files, and the options by which they are read; lookups are mostly by an index."""
        name = rng.choice(["local"] * 5 + ["folder", *_REMOTE])
        files, options = self._find(name)
        if name in ("local", "folder"):
            if self._index is not None and rng.random() < (0.9 if is_lookup else 0.3):
                name, options["index"] = "index", self._index
            elif self._zones is not None and rng.random() < 0.7:
                name, options["zones"] = "zones", self._zones
            cache = rng.random()
            if cache < 0.3:
                options["cache"] = None if cache < 0.1 else self._cache
        return name, files, options

    def open(self, files: Any, options: dict[str, Any]) -> Any:
        """Open a dataset for lookups, the same one for those by an index: it keeps what it knows between calls."""
        if "index" not in options or "cache" in options:
            return parquet_bloom.dataset(files, **options)
        if self._dataset is None:
            self._dataset = parquet_bloom.dataset(files, **options)
        return self._dataset

    def _find(self, name: str) -> tuple[Any, dict[str, Any]]:
        folder = self.lake.folder
        paths = [str(folder / one) for one in self.names]
        if name == "local":
            return paths, {}
        if name == "folder":
            return str(folder), {}
        if name == "arrow":
            return self.names, {"filesystem": pa.fs.SubTreeFileSystem(str(folder), pa.fs.LocalFileSystem())}
        if name == "store":
            return self.names, {"filesystem": LocalStore(folder)}
        files = {f"{folder.name}/{one}": (folder / one).read_bytes() for one in self.names}
        if name == "fsspec":
            return list(files), {"filesystem": CountedFileSystem(files)}
        store = MemoryStore()
        for path, data in files.items():
            store.put(path, data)
        return list(files), {"filesystem": store}


class _Scan:
    """A scan that is drawn and compared.

    Attributes
    ----------
    story : what was drawn, as far as that went.
    """

    def __init__(self, lake: Lake, places: _Places, rng: random.Random, tally: ScanTally):
        self.lake, self.places, self.rng, self.tally = lake, places, rng, tally
        self.damaged = lake.damaged
        self.story = "not drawn"
        self.where: Any = None

    def compare(self) -> None:
        """Scan, and raise Difference if anything differs."""
        rng, tally = self.rng, self.tally
        way = rng.choice(list(_WAYS))
        place, files, options = self.places.draw(rng, way in _LOOKUPS)
        self.threads = rng.choice([None, None, 1, 2, 4])
        self.names = self._draw_names()
        drawn = self._draw_predicate()
        self.node, answer = (None, None) if drawn is None else (drawn.node, drawn.answer)
        self.true = np.ones(self._num_known, np.bool_) if answer is None else answer.true
        self.where = drawn.node if drawn is not None else None
        if drawn is not None and rng.random() < 0.25:
            self.where = tree.to_text(drawn.node)
        self.story = f"{way} at {place}, {self.names}, threads={self.threads}, where {self.where!r}"[:400]
        tally.scans += 1
        tally.ways[way] += 1
        tally.places[place] += 1
        tally.damaged += self.damaged is not None
        try:
            try:
                _WAYS[way](self, files, options)
            except PredicateError:
                tally.refused += 1
            except ParquetBloomError as error:
                if self.damaged is None or self.damaged.path.name not in str(error):
                    raise
                tally.failed += 1
        finally:
            if self.damaged is None and drawn is not None and rng.random() < _ASK_DUCKDB:
                self._ask_duckdb(drawn)
        tally.matched += bool(self.true[: len(self.lake.rows)].any())

    @property
    def _num_known(self) -> int:
        return len(self.lake.rows) + (len(self.damaged.rows) if self.damaged else 0)

    # -------------------------------------------------------------------------------------------------------- drawing

    def _draw_names(self) -> list[str] | None:
        names, rng = self.lake.rows.column_names, self.rng
        choice = rng.random()
        if choice < 0.3:
            return None
        if choice < 0.5:
            return [ROW]
        if choice < 0.53 and self.damaged is None:
            return []
        chosen: list[str] = rng.sample(names, rng.randint(1, min(len(names), 4)))
        return [*chosen, ROW] if self.damaged is not None and ROW not in chosen else chosen

    def _draw_predicate(self) -> Drawn | None:
        rng, lists = self.rng, list(self.lake.lists)
        columns = list(self.lake.columns.values())
        if rng.random() < 0.04:
            return None
        if not lists or rng.random() < 0.5:
            return self._draw_point(columns) if rng.random() < 0.5 else draw_predicate(rng, columns)
        parts = [self._draw_contains(rng.choice(lists)) for _ in range(rng.choice([1, 1, 1, 2]))]
        if rng.random() < 0.4:
            parts.append(draw_predicate(rng, columns, 2))
        if len(parts) == 1:
            return parts[0]
        return joined(parts, And, lambda a, b: a & b) if rng.random() < 0.7 else joined(parts, Or, lambda a, b: a | b)

    def _draw_point(self, columns: list[Ranked]) -> Drawn:
        """Draw what few rows meet: `=` or IN, and perhaps something else."""
        rng = self.rng
        column = rng.choice(columns)
        name = '"' + column.name.replace(".", '"."') + '"'
        for _ in range(4):
            drawn = comparison(rng, column, name, "=") if rng.random() < 0.6 else among(rng, column, name)
            if drawn.answer.true.any():  # most of those that are drawn first meet none
                break
        if rng.random() < 0.35:
            return joined([drawn, draw_predicate(rng, columns, 2)], And, lambda a, b: a & b)
        return drawn

    def _draw_contains(self, name: str) -> Drawn:
        arrow, draw = LISTS[name]
        known = self.lake.elements[name]
        value = self.rng.choice(known) if known and self.rng.random() < 0.7 else draw(self.rng)
        lists = self.lake.lists[name]
        true = np.array([row is not None and value in row for row in lists], np.bool_)
        is_null = np.array([row is None for row in lists], np.bool_)
        sql = None if isinstance(value, bool) else f'list_contains("{name}", {peers.literal("duckdb", value, arrow)})'
        drawn = Drawn(tree.Contains(name, value), Answer(true, ~true & ~is_null), sql)
        if self.rng.random() < 0.15:
            return Drawn(tree.negation(drawn.node), ~drawn.answer, sql and f"NOT ({sql})")
        return drawn

    def _ask_duckdb(self, drawn: Drawn) -> None:
        names = {name.split(".")[0] for name in tree.columns(drawn.node)}
        if drawn.sql is None or not names <= {*_IN_DUCKDB, *LISTS} - {"li_bool"}:
            return
        self.tally.by_duckdb += 1
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.execute("SET TimeZone='UTC'")
            connection.register("t", self.lake.rows.select(sorted({*names, ROW})))
            query = f"SELECT {ROW} FROM t WHERE {drawn.sql} ORDER BY {ROW}"
            rows = [row for (row,) in connection.execute(query).fetchall()]
        expected = np.sort(self.lake.rows[ROW].to_numpy()[drawn.answer.true])
        if rows != expected.tolist():
            raise Difference(f"DuckDB has {len(rows)} rows, the oracle {len(expected)}: {drawn.sql[:500]}")

    # ------------------------------------------------------------------------------------------------------ comparing

    def bounds(self, names: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows that have to be found, and those that may be, if some columns of the result are read."""
        count, file = len(self.lake.rows), self.damaged
        least = self.true[:count].copy()
        most = least.copy()
        if file is not None:
            before, seen = least[file.start :][: len(file.rows)].copy(), self.true[count:]
            readable = self._find_readable([*names, *self._predicate_columns()])
            inside = slice(file.start, file.start + len(file.rows))
            least[inside] = before & (seen | ~readable)
            most[inside] = np.where(readable, seen, before)
        return least, most

    def _predicate_columns(self) -> set[str]:
        return set() if self.node is None else {name.split(".")[0] for name in tree.columns(self.node)}

    def _find_readable(self, names: Iterable[str]) -> np.ndarray:
        """Return which rows of the damaged file pyarrow can read."""
        assert self.damaged is not None
        readable = np.ones(len(self.damaged.rows), np.bool_)
        for name in names:
            readable &= self.lake.seen[name][1]
        return readable

    def shown(self, names: Sequence[str]) -> pa.Table:
        """Return columns of all rows, those of the damaged file as pyarrow shows them, or as they were."""
        rows, file = self.lake.rows.select(names), self.damaged
        if file is None:
            return rows
        columns = []
        for name in names:
            column, (seen, readable) = rows.select([name]), self.lake.seen[name]
            parts, start = [column.slice(0, file.start)], 0
            for count in file.groups:
                is_read = bool(readable[start : start + count].all())
                part = (
                    pa.table({name: seen.slice(start, count)}) if is_read else column.slice(file.start + start, count)
                )
                parts.append(part)
                start += count
            parts.append(column.slice(file.start + len(file.rows)))
            columns.append(combine(parts).column(0))
        return pa.table(columns, names=list(names))

    def check_table(self, found: pa.Table, ordered: bool = True, names: Sequence[str] | None = None) -> None:
        """Raise Difference unless a table has the rows that match, in their order, and the columns asked for."""
        if names is None:
            names = self.lake.rows.column_names if self.names is None else self.names
        least, most = self.bounds(names)
        if found.column_names != list(names):
            raise Difference(f"columns {found.column_names}, not {list(names)}")
        if not names:
            self.check_count(found.num_rows, names)
            return
        if not ordered:
            if ROW not in names:
                self.check_count(found.num_rows, names)
                return
            found = _take(found, np.argsort(self._positions(found[ROW].to_numpy()), kind="stable"))
        mask = least
        if ROW in names:
            mask = self.check_positions(self._positions(found[ROW].to_numpy()), least, most)
        elif self.damaged is not None:
            raise AssertionError("rows of a damaged file are compared by their numbers")
        self.check_values(decode(found), keep(self.shown(names), mask))

    def _positions(self, rows: np.ndarray) -> np.ndarray:
        """Return where the rows with some numbers are among all."""
        known = self.lake.rows[ROW].to_numpy()
        order = np.argsort(known)
        places = np.searchsorted(known[order], rows)
        if (places >= len(known)).any() or (known[order][np.minimum(places, len(known) - 1)] != rows).any():
            raise Difference(f"rows that are nowhere: {rows[:9]}")
        return order[places]

    def check_positions(self, positions: np.ndarray, least: np.ndarray, most: np.ndarray) -> np.ndarray:
        """Raise Difference unless these are rows that match, in order; return which rows they are."""
        found = np.zeros(len(least), np.bool_)
        found[positions] = True
        lost, extra = np.flatnonzero(least & ~found), np.flatnonzero(found & ~most)
        if len(lost) or len(extra):
            raise Difference(f"{len(positions)} rows, {len(lost)} lost {lost[:5]}, {len(extra)} too many {extra[:5]}")
        if (np.diff(positions) <= 0).any():
            raise Difference(f"rows in another order, or twice: {positions[:20]}")
        return found

    def check_count(self, count: int, names: Iterable[str] = ()) -> None:
        least, most = self.bounds(names)
        if not (least & most).sum() <= count <= most.sum():
            raise Difference(f"counted {count}, not {least.sum()} to {most.sum()}")

    def check_values(self, found: pa.Table, expected: pa.Table) -> None:
        for name, ours, theirs in zip(expected.column_names, found.columns, expected.columns, strict=True):
            if ours.type != theirs.type:
                raise Difference(f"column {name} is of {ours.type}, not {theirs.type}")
            one, other = bits_of(pa.table({name: ours})), bits_of(pa.table({name: theirs}))
            if one != other:
                rows = [i for i in range(min(len(ours), len(theirs))) if not _is_same(ours[i], theirs[i])]
                told = f"{_tell(ours[rows[0]])}, not {_tell(theirs[rows[0]])}"[:300] if rows else "lengths differ"
                raise Difference(f"column {name}: {len(rows)} of {len(theirs)} values differ, row {rows[:3]}: {told}")
            ours.validate(full=self.damaged is None)  # damaged values may be such as their type does not have

    # ----------------------------------------------------------------------------------------------------------- ways

    def scan(self, files: Any, options: dict[str, Any], **more: Any) -> Any:
        dataset = parquet_bloom.dataset(files, **options)
        return dataset.scan(self.where, self.names, threads=self.threads, **more)

    def read_table(self, files: Any, options: dict[str, Any]) -> None:
        where = tree.Or((tree.IsNull(ROW), tree.IsNotNull(ROW))) if self.where is None else self.where
        found = parquet_bloom.read_table(files, where, self.names, threads=self.threads, **options)
        names = self.lake.rows.column_names if self.names is None else self.names
        if len({(*file.rows.schema.names, *map(str, file.rows.schema.types)) for file in self.lake.files}) > 1:
            if self.names is not None and found.column_names != list(names):
                raise Difference(f"columns {found.column_names}, not {list(names)}")
            # Without a schema of the lake columns are those of the files that are read, and of types that these need.
            found = _fill(found, self.shown(names))
        self.check_table(found)

    def to_arrow(self, files: Any, options: dict[str, Any]) -> None:
        max_bytes = self.rng.choice([None, None, 1, 1000, 100_000])
        self.check_table(self.scan(files, options).to_arrow(max_bytes=max_bytes))

    def to_batches(self, files: Any, options: dict[str, Any]) -> None:
        size = self.rng.choice([1 if len(self.lake.rows) < 5_000 else 50, 7, 100, 65_536])
        in_order = self.rng.random() < 0.6
        max_bytes = self.rng.choice([None, None, 1, 1000, 100_000])
        self.story += f"; {size=}, {in_order=}, {max_bytes=}"
        scan = self.scan(files, options)
        batches = list(scan.to_batches(size, in_order=in_order, max_bytes=max_bytes))
        if any(not 0 < batch.num_rows <= size for batch in batches):
            raise Difference(f"batches of {[batch.num_rows for batch in batches][:20]} rows")
        if batches:
            self.check_table(pa.Table.from_batches(batches), ordered=in_order)
        else:
            self.check_count(0, self.names or self.lake.rows.column_names)

    def count_rows(self, files: Any, options: dict[str, Any]) -> None:
        self.check_count(self.scan(files, options).count_rows())

    def twice(self, files: Any, options: dict[str, Any]) -> None:
        """Use one scan, and one dataset, several times."""
        dataset = parquet_bloom.dataset(files, **options)
        scan = dataset.scan(self.where, self.names, threads=self.threads)
        self.check_count(scan.count_rows())
        self.check_table(scan.to_arrow())
        self.check_table(dataset.scan(self.where, self.names, threads=self.threads).to_arrow())

    def leave_out(self, files: Any, options: dict[str, Any]) -> None:
        """Leave out files that cannot be read."""
        errors: list[ParquetBloomError] = []
        try:
            scan = self.scan(files, options, on_error=errors.append)
            found = scan.to_arrow()
        except PredicateError:
            raise
        if not errors:
            self.check_table(found)
            return
        names = self.lake.rows.column_names if self.names is None else self.names
        if self.damaged is None or any(self.damaged.path.name not in str(error) for error in errors):
            raise Difference(f"left out: {errors[0]!r}")
        self.tally.failed += 1
        least, most = self.bounds(names)
        least[self.damaged.start : self.damaged.start + len(self.damaged.rows)] = False
        self.check_positions(self._positions(found[ROW].to_numpy()), least, most)

    def plan(self, files: Any, options: dict[str, Any]) -> None:
        """Find the row groups, and the rows, that can match."""
        scan = self.scan(files, options)
        selected = {Path(path).name: groups for path, groups in scan.plan().selected.items()}
        ranges = {Path(path).name: groups for path, groups in scan.row_ranges().items()}
        for file in self.lake.files:
            start = file.start
            for group, count in enumerate(file.groups):
                matching = np.flatnonzero(self.true[start : start + count])
                start += count
                if file is self.damaged or not len(matching):
                    continue
                if group not in selected.get(file.path.name, ()):
                    raise Difference(f"{file.path.name}: row group {group} is not selected")
                inside = np.zeros(count, np.bool_)
                for first, last in ranges.get(file.path.name, {}).get(group, ()):
                    inside[first:last] = True
                if not inside[matching].all():
                    raise Difference(f"{file.path.name}: rows of row group {group} are not in its ranges")

    def _draw_keys(self, most: int) -> tuple[str, list[Any]]:
        column = self.lake.columns[self.rng.choice([name for name in self.lake.columns if "." not in name])]
        values = [draw_value(self.rng, column) for _ in range(self.rng.choice([1, 1, 3, most]))]
        known = [value for value in peers.VALUES[column.kind].always if value is not None] or [0]
        values = [value for value in values if value is not None] or known[:1]
        if isinstance(values[0], int) and pa.types.is_temporal(column.arrow):
            return column.name, [peers.as_literal(value, column.arrow) for value in values]
        return column.name, values

    def _key_answers(self, name: str, values: Sequence[Any]) -> list[np.ndarray]:
        column = self.lake.columns[name]
        plain = [value.cast(pa.int64()).as_py() if isinstance(value, pa.Scalar) else value for value in values]
        return [column.compare("=", key(value, column.arrow)).true for value in plain]

    def get_pairs(self, files: Any, options: dict[str, Any]) -> None:
        """Read, or find, the rows with values of two columns."""
        one, other = self._draw_keys(5), self._draw_keys(5)
        if one[0] == other[0]:
            one = ROW, [int(self.rng.choice(self.lake.rows[ROW])) if len(self.lake.rows) else 0]
            other = self._draw_keys(1)
            if other[0] == ROW:
                return
        pairs = list(zip(one[1], other[1], strict=False))[: 1 if self.damaged is not None else 5]
        names = [one[0], other[0]]
        self.story += f"; keys of {names}: {[tuple(map(_tell, pair)) for pair in pairs]}"[:200]
        self.node = tree.And((tree.IsNotNull(names[0]), tree.IsNotNull(names[1])))
        firsts, seconds = (
            self._key_answers(name, values) for name, values in zip(names, zip(*pairs, strict=True), strict=True)
        )
        answers = [first & second for first, second in zip(firsts, seconds, strict=True)]
        dataset = self.places.open(files, options)
        self.true = np.logical_or.reduce(answers)
        if self.rng.random() < 0.5:
            self.check_located(dataset.locate(names, pairs, threads=self.threads))
        else:
            self.check_answers(dataset.get(names, pairs, self.names, threads=self.threads), answers)

    def get(self, files: Any, options: dict[str, Any]) -> None:
        name, values = self._draw_keys(20)
        if self.damaged is not None:
            values = values[:1]
        self.story += f"; keys of {name}: {[_tell(value) for value in values]}"[:200]
        self.node = tree.IsNotNull(name)
        answers = self._key_answers(name, values)
        found = self.places.open(files, options).get(
            name, values if len(values) > 1 or self.rng.random() < 0.5 else values[0], self.names, threads=self.threads
        )
        self.check_answers(found, answers)

    def check_answers(self, found: pa.Table, answers: Sequence[np.ndarray]) -> None:
        """Raise Difference unless a table has the rows of one key after those of the other."""
        if len(answers) == 1:
            self.true = answers[0]
            self.check_table(found)
            return
        names = self.lake.rows.column_names if self.names is None else self.names
        count = len(self.lake.rows)
        if found.column_names != list(names):
            raise Difference(f"columns {found.column_names}, not {list(names)}")
        if found.num_rows != sum(int(answer[:count].sum()) for answer in answers):
            raise Difference(f"{found.num_rows} rows, not {[int(answer[:count].sum()) for answer in answers]}")
        start = 0
        for answer in answers:
            part = found.slice(start, int(answer[:count].sum()))
            start += part.num_rows
            self.true = answer
            self.check_table(part)

    def locate(self, files: Any, options: dict[str, Any]) -> None:
        name, values = self._draw_keys(300)
        self.story += f"; keys of {name}: {[_tell(value) for value in values]}"[:200]
        self.node = tree.IsNotNull(name)
        self.true = np.logical_or.reduce(self._key_answers(name, values))
        found = self.places.open(files, options).locate(name, values, threads=self.threads)
        mask = self.check_located(found)
        ours, theirs = decode(found.select(["key"])), keep(self.shown([name]), mask).rename_columns(["key"])
        if ours["key"].type == theirs["key"].type:
            self.check_values(ours, theirs)

    def check_located(self, found: pa.Table) -> np.ndarray:
        """Raise Difference unless a table has the positions of the rows that match; return which rows they are."""
        numbers = {file.path.name: file for file in self.lake.files}
        positions = []
        for path, group, row in zip(*(found[one].to_pylist() for one in ("path", "row_group", "row")), strict=True):
            file: LakeFile = numbers[Path(path).name]
            ends = np.cumsum(file.groups)
            if int(np.searchsorted(ends, row, "right")) != group:
                raise Difference(f"row {row} of {path} is not in row group {group}: {file.groups}")
            positions.append(file.start + row)
        return self.check_positions(np.array(positions, np.int64), *self.bounds([]))

    def semi_join(self, files: Any, options: dict[str, Any]) -> None:
        name, values = self._draw_keys(300)
        self.story += f"; keys of {name}: {[_tell(value) for value in values]}"[:200]
        self.node = tree.IsNotNull(name)
        self.true = np.logical_or.reduce(self._key_answers(name, values))
        scan = parquet_bloom.semi_join(parquet_bloom.dataset(files, **options), values, name)
        self.names = None
        if self.rng.random() < 0.4:
            self.check_count(scan.count_rows())
        self.check_table(scan.to_arrow())


_WAYS: dict[str, Callable[[_Scan, Any, dict[str, Any]], None]] = {
    "read_table": _Scan.read_table,
    "to_arrow": _Scan.to_arrow,
    "to_batches": _Scan.to_batches,
    "count_rows": _Scan.count_rows,
    "twice": _Scan.twice,
    "leave_out": _Scan.leave_out,
    "plan": _Scan.plan,
    "get": _Scan.get,
    "get_pairs": _Scan.get_pairs,
    "locate": _Scan.locate,
    "semi_join": _Scan.semi_join,
}


def keep(table: pa.Table, mask: np.ndarray) -> pa.Table:
    """Return some rows; Arrow's own `filter` does not know all types."""
    if mask.all():
        return table
    try:
        return table.filter(pa.array(mask))
    except pa.ArrowNotImplementedError:
        return take_rows(table, np.flatnonzero(mask))


def _take(table: pa.Table, positions: np.ndarray) -> pa.Table:
    table = table.combine_chunks()
    try:
        return table.take(pa.array(positions))
    except pa.ArrowNotImplementedError:
        runs = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
        return pa.concat_tables([table.slice(0, 0), *(table.slice(int(run[0]), len(run)) for run in runs if len(run))])


def _fill(found: pa.Table, known: pa.Table) -> pa.Table:
    """Put columns into their order, and types; one that is missing is null, as in every file that was read."""
    columns = [
        pa.chunked_array([pa.nulls(len(found), field.type)])
        if field.name not in found.column_names
        else combine([known.select([field.name]).slice(0, 0), found.select([field.name])]).column(0)
        for field in known.schema
    ]
    return pa.table(columns, names=known.column_names) if columns else found


def _is_same(one: pa.Scalar, other: pa.Scalar) -> bool:
    return _tell(one) == _tell(other)


def _tell(value: Any) -> str:
    try:
        return repr(value.as_py() if isinstance(value, pa.Scalar) else value)
    except (OverflowError, ValueError):  # what Python's own types do not hold
        return str(pa.array([value]).cast(pa.int64(), safe=False)[0]) if pa.types.is_temporal(value.type) else "?"

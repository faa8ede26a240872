"""Random scans of random lakes in every public way give plain pyarrow's rows, in the order of files and rows.

pyarrow reads each file whole, before and after it is damaged. Which rows match is worked out by `ranked` from the
values that were written, and DuckDB is asked about some of the predicates. A damaged file may end in an error that
names it; rows that come of it are those that it had, or that pyarrow shows. A failure names the lake's seed; `hunting`
says how to repeat it, and how to go on for longer.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.fs
import pytest
from obstore.store import LocalStore, MemoryStore
from support.oracle.ranked import Ranked, key
from support.random_cases.hunting import seeds
from support.random_cases.random_lakes import (
    FOLDER,
    LISTS,
    ROW,
    WRITERS,
    Choices,
    Lake,
    LakeFile,
    combine,
    decode,
    draw_lake,
)
from support.random_cases.random_predicates import Drawn, contains, draw_point, draw_predicate, draw_value, joined
from support.scale import scaled
from support.servers.counted import CountedFileSystem
from support.writers import peers, random_files
from support.writers.peers import bits_of, take_rows

import parquet_bloom
from parquet_bloom import zones
from parquet_bloom.errors import ParquetBloomError, PredicateError
from parquet_bloom.predicate import tree

pytestmark = pytest.mark.default

SCANS, MANY = 4, 40  # of each lake and test; the latter of the quickest ones
_ASK_DUCKDB = 0.25  # share of the predicates
_IN_DUCKDB = {ROW, FOLDER, "st", *random_files.DUCKDB, *LISTS} - {"li_bool"}
_EVERY_ROW = tree.Or((tree.IsNull(ROW), tree.IsNotNull(ROW)))


class Places:
    """Where the files of a lake can be read: on disk, by an index or zones, or in remote stores of the same content."""

    def __init__(self, lake: Lake, is_remote: bool = False):
        self.lake, self.is_remote = lake, is_remote
        self._cache, self._dataset = parquet_bloom.MetadataCache(), None
        rng = random.Random(f"places of {lake.seed}")
        paths = [str(file.path) for file in lake.files]
        names = [name for name in [*lake.columns, *lake.lists] if "." not in name and name != FOLDER]
        self._index = self._zones = None
        if lake.damaged is not None or not lake.is_alike or not len(lake.rows):
            return
        if rng.random() < 0.7:
            options: dict[str, Any] = {"granularity": rng.choice(["zone", "row_group", "file"])}
            if options["granularity"] == "zone":
                options["zone_rows"] = rng.choice([7, 64])
            layout = rng.choice(["postings", "cuckoo"])
            with contextlib.suppress(ParquetBloomError):  # of such types there are no indexes
                chosen = rng.sample(names, min(len(names), 2))
                self._index = parquet_bloom.LakeIndex.create(f"{lake.folder}-index", chosen, layout=layout, **options)
                self._index.append(lake.folder if lake.has_folders else paths)
        if rng.random() < 0.4:
            target = f"{lake.folder}.zones.{rng.choice(['arrow', 'parquet'])}"
            with contextlib.suppress(ParquetBloomError):
                zones.build(paths, rng.choice(names), target, rows_per_zone=rng.choice([3, 10, 100]))
                self._zones = target

    def close(self) -> None:
        if self._index is not None:
            self._index.close()

    def draw(self, rng: random.Random, is_lookup: bool) -> tuple[str, Any, dict[str, Any]]:
        """Return a place's name, the files, and the options by which they are read; lookups are mostly by an index."""
        name = rng.choice([*["local"] * (0 if self.is_remote else 5), "folder", "fsspec", "arrow", "memory", "store"])
        if self.lake.has_folders and name == "local":
            name = "folder"
        files, options = self._find(name)
        if name in ("local", "folder"):
            if self._index is not None and rng.random() < (0.9 if is_lookup else 0.4):
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
        folder, names = self.lake.folder, self.lake.names
        if name == "local":
            return [str(folder / one) for one in names], {}
        if name == "folder":
            return str(folder), {}
        if name == "arrow":
            system = pa.fs.SubTreeFileSystem(str(folder.parent), pa.fs.LocalFileSystem())
            return [f"{folder.name}/{one}" for one in names], {"filesystem": system}
        if name == "store":
            return [f"{folder.name}/{one}" for one in names], {"filesystem": LocalStore(folder.parent)}
        files = {f"{folder.name}/{one}": (folder / one).read_bytes() for one in names}
        if name == "fsspec":
            return list(files), {"filesystem": CountedFileSystem(files)}
        store = MemoryStore()
        for path, data in files.items():
            store.put(path, data)
        return list(files), {"filesystem": store}


class Scan:
    """A scan that is drawn, and the rows that it has to find.

    Attributes
    ----------
    where : the predicate as it is written; None for all rows.
    names : columns of the result; None for all.
    true : which rows match: those of the lake, then those of the damaged file as pyarrow reads it.
    """

    def __init__(self, places: Places, rng: random.Random, tally: Counter[str], is_lookup: bool):
        self.places, self.lake, self.damaged = places, places.lake, places.lake.damaged
        self.rng, self.tally = rng, tally
        self.place, self.files, self.options = places.draw(rng, is_lookup)
        self.threads = rng.choice([None, None, 1, 2, 4])
        self.names = self._draw_names()
        self.drawn = None if rng.random() < 0.04 else self._draw_predicate()
        self.true = np.ones(len(self.lake.rows) + (len(self.damaged.rows) if self.damaged else 0), np.bool_)
        self.node = self.where = None
        if self.drawn is not None:
            self.node, self.true, self.where = self.drawn.node, self.drawn.answer.true, self.drawn.spell(rng)
        self.story = f"at {self.place}, {self.names}, threads={self.threads}, where {self.where!r}"[:600]

    @property
    def all_names(self) -> list[str]:
        return self.lake.rows.column_names if self.names is None else self.names

    def dataset(self) -> Any:
        return parquet_bloom.dataset(self.files, **self.options)

    def scan(self, **options: Any) -> Any:
        return self.dataset().scan(self.where, self.names, threads=self.threads, **options)

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

    def _draw_predicate(self) -> Drawn:
        rng, lists = self.rng, list(self.lake.lists)
        columns = list(self.lake.columns.values())
        if not lists or rng.random() < 0.5:
            return draw_point(rng, columns) if rng.random() < 0.5 else draw_predicate(rng, columns)
        parts = [self._draw_contains(rng.choice(lists)) for _ in range(rng.choice([1, 1, 1, 2]))]
        if rng.random() < 0.4:
            parts.append(draw_predicate(rng, columns, 2))
        return parts[0] if len(parts) == 1 else joined(parts, rng.choice(["AND", "AND", "OR"]))

    def _draw_contains(self, name: str) -> Drawn:
        arrow, draw = LISTS[name]
        known = self.lake.elements[name]
        value = self.rng.choice(known) if known and self.rng.random() < 0.7 else draw(self.rng)
        drawn = contains(name, self.lake.lists[name], value, arrow)
        return ~drawn if self.rng.random() < 0.15 else drawn

    def draw_keys(self, most: int) -> tuple[str, list[Any]]:
        """Draw a column, and values to look up; the predicate is that it has one of them."""
        rng, lake = self.rng, self.lake
        column = lake.columns[rng.choice([name for name in lake.columns if "." not in name and name != FOLDER])]
        values = [draw_value(rng, column) for _ in range(rng.choice([1, 1, 3, most]))]
        known = [value for value in peers.VALUES[column.kind].always if value is not None] or [0]
        values = [peers.as_literal(value, column.arrow) for value in values if value is not None] or known[:1]
        self.story += f"; keys of {column.name}: {values}"[:200]
        self.node = tree.IsNotNull(column.name)
        return column.name, values

    def answer_keys(self, name: str, values: Sequence[Any]) -> list[np.ndarray]:
        """Return the rows of each key."""
        column: Ranked = self.lake.columns[name]
        plain = [value.cast(pa.int64()).as_py() if isinstance(value, pa.Scalar) else value for value in values]
        return [column.compare("=", key(value, column.arrow)).true for value in plain]

    def ask_duckdb(self) -> None:
        """Hold the oracle against DuckDB, over the rows in memory."""
        drawn, rows = self.drawn, self.lake.rows
        if drawn is None or drawn.sql is None or self.damaged is not None or self.rng.random() > _ASK_DUCKDB:
            return
        names = {name.split(".")[0] for name in tree.columns(drawn.node)}
        if names <= _IN_DUCKDB:
            self.tally["by DuckDB"] += 1
            with duckdb.connect(config={"threads": 1}) as connection:
                connection.execute("SET TimeZone='UTC'")
                connection.register("t", rows.select(sorted({*names, ROW})))
                query = f"SELECT {ROW} FROM t WHERE {drawn.sql} ORDER BY {ROW}"
                found = [row for (row,) in connection.execute(query).fetchall()]
            assert found == np.sort(rows[ROW].to_numpy()[drawn.answer.true]).tolist(), f"DuckDB has other rows: {query}"

    # ------------------------------------------------------------------------------------------------------ comparing

    def bounds(self, names: Iterable[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows that have to be found, and those that may be, if some columns of the result are read."""
        count, file = len(self.lake.rows), self.damaged
        least = self.true[:count].copy()
        most = least.copy()
        if file is not None:
            before, seen = least[file.start :][: len(file.rows)].copy(), self.true[count:]
            readable = np.ones(len(file.rows), np.bool_)
            for name in {*names, *({one.split(".")[0] for one in tree.columns(self.node)} if self.node else ())}:
                readable &= self.lake.seen[name][1]
            inside = slice(file.start, file.start + len(file.rows))
            least[inside] = before & (seen | ~readable)
            most[inside] = np.where(readable, seen, before)
        return least, most

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
                one = pa.table({name: seen.slice(start, count)}) if is_read else column.slice(file.start + start, count)
                parts.append(one)
                start += count
            parts.append(column.slice(file.start + len(file.rows)))
            columns.append(combine(parts).column(0))
        return pa.table(columns, names=list(names))

    def check_table(self, found: pa.Table, ordered: bool = True) -> None:
        """Check that a table has the rows that match, in their order, and the columns asked for."""
        names = self.all_names
        assert found.column_names == list(names)
        if not names or (not ordered and ROW not in names):
            self.check_count(found.num_rows)
            return
        if not ordered:
            found = _take(found, np.argsort(self.positions(found), kind="stable"))
        mask, most = self.bounds(names)
        if ROW in names:
            mask = self.check_positions(self.positions(found), mask, most)
        else:
            assert self.damaged is None, "rows of a damaged file are compared by their numbers"
        self.check_values(decode(found), _keep(self.shown(names), mask))

    def positions(self, found: pa.Table) -> np.ndarray:
        """Return where the rows of a table are among all."""
        rows, known = found[ROW].to_numpy(), self.lake.rows[ROW].to_numpy()
        order = np.argsort(known)
        places = np.searchsorted(known[order], rows)
        assert (places < len(known)).all(), "there are no such rows"
        assert (known[order][places] == rows).all(), "there are no such rows"
        return order[places]

    def check_positions(self, positions: np.ndarray, least: np.ndarray, most: np.ndarray) -> np.ndarray:
        """Check that these are rows that match, in order; return which rows they are."""
        found = np.zeros(len(least), np.bool_)
        found[positions] = True
        lost, extra = np.flatnonzero(least & ~found), np.flatnonzero(found & ~most)
        assert not len(lost), f"{len(lost)} rows of {least.sum()} are lost: {lost[:5]}"
        assert not len(extra), f"{len(extra)} rows too many: {extra[:5]}"
        assert (np.diff(positions) > 0).all(), f"rows in another order, or twice: {positions[:20]}"
        return found

    def check_count(self, count: int, names: Iterable[str] | None = None) -> None:
        least, most = self.bounds(self.all_names if names is None else names)
        assert (least & most).sum() <= count <= most.sum()

    def check_values(self, found: pa.Table, expected: pa.Table) -> None:
        for name, ours, theirs in zip(expected.column_names, found.columns, expected.columns, strict=True):
            assert ours.type == theirs.type, name
            if bits_of(pa.table({name: ours})) != bits_of(pa.table({name: theirs})):
                assert len(ours) == len(theirs), name
                other = [i for i in range(len(ours)) if str(ours[i]) != str(theirs[i])]
                raise AssertionError(f"values of {name} differ: {[(ours[i], theirs[i]) for i in other[:3]]}")
            ours.validate(full=self.damaged is None)  # damaged values may be such as their type does not have

    def check_answers(self, found: pa.Table, answers: Sequence[np.ndarray]) -> None:
        """Check that a table has the rows of one key after those of the other."""
        count = len(self.lake.rows)
        sizes = [int(answer[:count].sum()) for answer in answers]
        if len(answers) > 1:
            assert found.num_rows == sum(sizes)
        start = 0
        for answer, size in zip(answers, sizes, strict=True):
            self.true = answer
            self.check_table(found.slice(start, size) if len(answers) > 1 else found)
            start += size

    def check_located(self, found: pa.Table) -> np.ndarray:
        """Check that a table has the positions of the rows that match; return which rows they are."""
        files = {file.path.name: file for file in self.lake.files}
        positions = []
        for path, group, row in zip(*(found[one].to_pylist() for one in ("path", "row_group", "row")), strict=True):
            file: LakeFile = files[Path(path).name]
            assert np.searchsorted(np.cumsum(file.groups), row, "right") == group
            positions.append(file.start + row)
        return self.check_positions(np.array(positions, np.int64), *self.bounds([]))


def _keep(table: pa.Table, mask: np.ndarray) -> pa.Table:
    """Return some rows; Arrow's own `filter` does not know all types."""
    try:
        return table if mask.all() else table.filter(pa.array(mask))
    except pa.ArrowNotImplementedError:
        return take_rows(table, np.flatnonzero(mask))


def _take(table: pa.Table, positions: np.ndarray) -> pa.Table:
    table = table.combine_chunks()
    try:
        return table.take(pa.array(positions))
    except pa.ArrowNotImplementedError:
        runs = np.split(positions, np.flatnonzero(np.diff(positions) != 1) + 1)
        return pa.concat_tables([table.slice(0, 0), *(table.slice(int(run[0]), len(run)) for run in runs if len(run))])


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Places]]:
    folder = tmp_path_factory.mktemp("lakes")
    drawn = [Places(draw_lake(seed, folder, Choices((*WRITERS, "orc")))) for seed in seeds(max(8, scaled(4)))]
    yield drawn
    for places in drawn:
        places.close()


def compare(
    lakes: list[Places], check: Callable[[Scan], None], scans: int = SCANS, is_lookup: bool = False
) -> Counter[str]:
    """Check some scans of each lake. A damaged file may end them in an error that names it."""
    tally: Counter[str] = Counter()
    for places in lakes:
        lake = places.lake
        for number in range(scans):
            scan = Scan(places, random.Random(f"{check.__qualname__} {number} of {lake.seed}"), tally, is_lookup)
            tally["scans"] += 1
            try:
                try:
                    check(scan)
                except PredicateError:  # a literal cannot be compared exactly
                    tally["refused"] += 1
                except ParquetBloomError as error:
                    if lake.damaged is None or lake.damaged.path.name not in str(error):
                        raise
                    tally["failed"] += 1
                scan.ask_duckdb()
            except BaseException as error:
                error.add_note(f"lake {lake.seed}, scan {number}: {scan.story} | {lake.story[:1500]}")
                raise
            tally["matched"] += bool(scan.true[: len(lake.rows)].any())
    least = 0.02 if is_lookup else 0.1  # else nothing was shown
    assert tally["scans"] < 20 or tally["matched"] > least * tally["scans"]
    assert tally["refused"] <= 1 + tally["scans"] / 20
    return tally


# --------------------------------------------------------------------------------------------------------------- rows


@pytest.mark.ci
def test_read_table_gives_the_rows_that_match(lakes: list[Places]) -> None:
    def check(scan: Scan) -> None:
        where = _EVERY_ROW if scan.where is None else scan.where
        found = parquet_bloom.read_table(scan.files, where, scan.names, threads=scan.threads, **scan.options)
        if scan.names is not None:
            assert found.column_names == sorted(scan.names, key=lambda name: name == FOLDER)
            found = found.select(scan.names)
        if not scan.lake.is_alike:
            # Without a schema of the lake columns are those of the files that are read, and of types that these need.
            known = scan.shown(scan.all_names)
            columns = [
                combine([known.select([name]).slice(0, 0), found.select([name])]).column(0)
                if name in found.column_names
                else pa.chunked_array([pa.nulls(len(found), known.schema.field(name).type)])
                for name in known.column_names
            ]
            found = pa.table(columns, names=known.column_names) if columns else found
        scan.check_table(found)

    compare(lakes, check, MANY)


@pytest.mark.ci
def test_tables_and_counts_of_one_scan_agree(lakes: list[Places]) -> None:
    """Whatever the memory, and however often a scan and its dataset are used."""

    def check(scan: Scan) -> None:
        dataset = scan.dataset()
        one = dataset.scan(scan.where, scan.names, threads=scan.threads)
        for step in scan.rng.sample(["count", "table", "again"], 3):
            if step == "count":
                scan.check_count(one.count_rows())
            else:
                again = dataset.scan(scan.where, scan.names, threads=scan.threads) if step == "again" else one
                scan.check_table(again.to_arrow(max_bytes=scan.rng.choice([None, None, 1, 1000, 100_000])))

    compare(lakes, check)


def test_batches_have_at_most_their_size(lakes: list[Places]) -> None:
    def check(scan: Scan) -> None:
        size = scan.rng.choice([1 if len(scan.lake.rows) < 5_000 else 50, 7, 100, 65_536])
        in_order, max_bytes = scan.rng.random() < 0.6, scan.rng.choice([None, None, 1, 1000, 100_000])
        scan.story += f"; {size=}, {in_order=}, {max_bytes=}"
        batches = list(scan.scan().to_batches(size, in_order=in_order, max_bytes=max_bytes))
        assert all(0 < batch.num_rows <= size for batch in batches)
        if batches:
            scan.check_table(pa.Table.from_batches(batches), ordered=in_order)
        else:
            scan.check_count(0)

    compare(lakes, check)


@pytest.mark.ci
def test_only_a_damaged_file_is_left_out(lakes: list[Places]) -> None:
    def check(scan: Scan) -> None:
        errors: list[ParquetBloomError] = []
        found = scan.scan(on_error=errors.append).to_arrow()
        if not errors:
            scan.check_table(found)
            return
        file = scan.damaged
        assert file is not None
        assert all(file.path.name in str(error) for error in errors)
        least, most = scan.bounds(scan.all_names)
        least[file.start : file.start + len(file.rows)] = False
        scan.check_positions(scan.positions(found), least, most)

    compare(lakes, check)


# -------------------------------------------------------------------------------------------------------------- plans


def test_plans_keep_what_matches_and_skip_most_of_the_rest(lakes: list[Places]) -> None:
    matchless, skipped = Counter[str](), Counter[str]()

    def check(scan: Scan) -> None:
        one = scan.scan()
        selected = {Path(path).name: groups for path, groups in one.plan().selected.items()}
        ranges = {Path(path).name: groups for path, groups in one.row_ranges().items()}
        columns = set() if scan.node is None else tree.columns(scan.node)
        for file in scan.lake.files:
            start = file.start
            for group, count in enumerate(file.groups):
                matching = np.flatnonzero(scan.true[start : start + count])
                start += count
                if file is scan.damaged:
                    continue
                is_selected = group in selected.get(file.path.name, ())
                inside = np.zeros(count, np.bool_)
                for first, last in ranges.get(file.path.name, {}).get(group, ()):
                    inside[first:last] = True
                assert inside[matching].all(), f"rows of {file.path.name}, row group {group}, are not in the plan"
                assert is_selected or not len(matching)
                if count and not len(matching):
                    filtered = {} if file.story.startswith("orc") else file.filtered
                    is_point = scan.drawn is not None and scan.drawn.point
                    has_filter = all(name in filtered and filtered[name][group] for name in columns)
                    for kind in ("all", *(["point"] if is_point and has_filter else [])):
                        matchless[kind] += 1
                        skipped[kind] += not is_selected

    compare(lakes, check, MANY)
    if len(lakes) >= 8:  # not every column has a filter or statistics, and some filters are small
        assert skipped["all"] > 0.5 * matchless["all"]
        assert skipped["point"] >= 0.7 * matchless["point"]


def test_row_groups_with_an_element_are_kept(lakes: list[Places]) -> None:
    """Whose leaf is compared: of a list, of structs in a list, the keys of a map."""
    elements: dict[str, Callable[[Any], list[Any]]] = {
        "li": lambda row: row,
        "ls": lambda row: [item["q"] for item in row if item],
        "ma": lambda row: [one for one, _ in row],
    }
    for places in lakes:
        rng = random.Random(places.lake.seed)
        for file in places.lake.files if places.lake.damaged is None else ():
            for name in elements.keys() & {*file.rows.column_names}:
                leaf = next(one for one in file.filtered if one.startswith(f"{name}."))
                values = [[] if row is None else elements[name](row) for row in file.rows[name].to_pylist()]
                for value in rng.sample([one for row in values for one in row if one is not None] or ["none"], 1):
                    report = parquet_bloom.prune(file.path, [(leaf, "=", value)] if value != "none" else "row = 1")
                    ends = np.cumsum(file.groups)
                    holding = {int(np.searchsorted(ends, i, "right")) for i, row in enumerate(values) if value in row}
                    assert holding <= set(report.files[0].selected), (places.lake.seed, leaf, value)


@pytest.mark.ci
def test_files_planned_together_have_the_plan_of_each_alone(lakes: list[Places]) -> None:
    def plan(paths: list[str], where: Any, cache: Any, threads: int) -> tuple[dict[str, Any], list[str]]:
        errors: list[str] = []
        try:
            report = parquet_bloom.prune(
                paths, where, cache=cache, threads=threads, on_error=lambda error: errors.append(str(error))
            )
        except ParquetBloomError as error:  # no file is left
            return {}, [*errors, str(error)]
        return {file.path: file for file in report.files}, errors

    compared = 0
    for places in lakes:
        lake, rng, cache = places.lake, random.Random(places.lake.seed), parquet_bloom.MetadataCache()
        columns = [column for column in lake.columns.values() if column.name != FOLDER]
        for _ in range(SCANS):
            where = draw_predicate(rng, columns).node
            names = {name.split(".")[0] for name in tree.columns(where)}
            # A column that no file has is an error.
            paths = [str(file.path) for file in lake.files if names <= {*file.rows.column_names}]
            alone = [plan([path], where, None, 1) for path in paths]
            for kept in (None, cache, cache) if paths else ():
                files, errors = plan(paths, where, kept, rng.choice([1, 3]))
                assert files == {path: file for found, _ in alone for path, file in found.items()}, (lake.seed, where)
                if files:
                    assert errors == [error for _, found in alone for error in found], (lake.seed, where)
                compared += len(files)
    assert compared > len(lakes)


# -------------------------------------------------------------------------------------------------------------- lookups


@pytest.mark.ci
def test_get_gives_the_rows_of_keys_in_their_order(lakes: list[Places]) -> None:
    def check(scan: Scan) -> None:
        name, values = scan.draw_keys(20)
        if scan.damaged is not None:
            values = values[:1]
        keys = values if len(values) > 1 or scan.rng.random() < 0.5 else values[0]
        found = scan.places.open(scan.files, scan.options).get(name, keys, scan.names, threads=scan.threads)
        scan.check_answers(found, scan.answer_keys(name, values))

    compare(lakes, check, is_lookup=True)


@pytest.mark.ci
def test_locate_gives_the_positions_of_keys(lakes: list[Places]) -> None:
    def check(scan: Scan) -> None:
        name, values = scan.draw_keys(300)
        scan.true = np.logical_or.reduce(scan.answer_keys(name, values))
        found = scan.places.open(scan.files, scan.options).locate(name, values, threads=scan.threads)
        ours = decode(found.select(["key"]))
        theirs = _keep(scan.shown([name]), scan.check_located(found)).rename_columns(["key"])
        if ours["key"].type == theirs["key"].type:
            scan.check_values(ours, theirs)

    compare(lakes, check, is_lookup=True)


@pytest.mark.ci
def test_rows_have_both_keys_of_a_pair(lakes: list[Places]) -> None:
    def check(scan: Scan) -> None:
        one, other = scan.draw_keys(5), scan.draw_keys(5)
        if one[0] == other[0]:
            if other[0] == ROW:
                return
            one = ROW, [int(scan.rng.choice(scan.lake.rows[ROW])) if len(scan.lake.rows) else 0]
        pairs = list(zip(one[1], other[1], strict=False))[: 1 if scan.damaged is not None else 5]
        names = [one[0], other[0]]
        scan.node = tree.And(tuple(map(tree.IsNotNull, names)))
        firsts, seconds = map(scan.answer_keys, names, zip(*pairs, strict=True))
        answers = [first & second for first, second in zip(firsts, seconds, strict=True)]
        dataset = scan.places.open(scan.files, scan.options)
        scan.true = np.logical_or.reduce(answers)
        if scan.rng.random() < 0.5:
            scan.check_located(dataset.locate(names, pairs, threads=scan.threads))
        else:
            scan.check_answers(dataset.get(names, pairs, scan.names, threads=scan.threads), answers)

    compare(lakes, check, is_lookup=True)


@pytest.mark.ci
def test_semi_join_gives_the_rows_of_all_keys(lakes: list[Places]) -> None:
    def check(scan: Scan) -> None:
        name, values = scan.draw_keys(300)
        scan.true = np.logical_or.reduce(scan.answer_keys(name, values))
        scan.names = None
        found = parquet_bloom.semi_join(scan.dataset(), values, name)
        if scan.rng.random() < 0.4:
            scan.check_count(found.count_rows())
        scan.check_table(found.to_arrow())

    compare(lakes, check)


# -------------------------------------------------------------------------------------------------------- other files


@pytest.mark.parametrize("writer", ["orc", "clickhouse", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.ci
def test_rows_of_another_writer(writer: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    needs = {"clickhouse": "clickhouse_server", "spark": "spark"}
    helper = request.getfixturevalue(needs[writer]) if writer in needs else None
    lakes = [Places(draw_lake(seed, tmp_path, Choices((writer,), helper))) for seed in seeds(scaled(0.7))]
    test_plans_keep_what_matches_and_skip_most_of_the_rest(lakes)
    test_read_table_gives_the_rows_that_match(lakes)
    test_tables_and_counts_of_one_scan_agree(lakes)
    for places in lakes:
        places.close()


@pytest.mark.ci
def test_few_rows_of_large_row_groups(tmp_path: Path) -> None:
    """They are taken out of pages, of local files and of remote ones."""
    lakes = [
        Places(draw_lake(seed, tmp_path, Choices(("pyarrow",), scale="large")), True) for seed in seeds(scaled(0.7))
    ]
    test_tables_and_counts_of_one_scan_agree(lakes)
    test_get_gives_the_rows_of_keys_in_their_order(lakes)

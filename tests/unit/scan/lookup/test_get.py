"""Rows by their keys are those that a scan of all files gives, in the order of the keys, whatever changes meanwhile."""

from __future__ import annotations

import datetime as dt
import gc
import os
import pickle
import random
import shutil
import signal
import threading
import uuid
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import ParquetBloomError, PredicateError, UnknownColumnError
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.predicate.tree import Equal
from parquet_bloom.scan.lookup.lookup_session import CheckThreads, LocalWatch, Lookup

DAY = dt.date(2026, 1, 1)


pytestmark = pytest.mark.usefixtures("settled_tokens", "settled_footers")


def make_rows(rng: random.Random, count: int, distinct: int) -> pa.Table:
    keys = [rng.randrange(distinct) for _ in range(count)]

    def some(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 0.1 else value for value in values]

    return pa.table(
        {
            "id": pa.array(some(keys), pa.int64()),
            "text": some([f"text {key}" for key in keys]),
            "uuid": some([str(uuid.UUID(int=key)) for key in keys]),
            "day": pa.array(some([DAY + dt.timedelta(key) for key in keys]), pa.date32()),
            "price": pa.array(some([Decimal(key) / 100 for key in keys]), pa.decimal128(9, 2)),
            "ratio": some([float(key) for key in keys]),
            "tags": [[key, key + 1] for key in keys],
            "row": range(count),
        }
    )


def write_lake(folder: Path, rng: random.Random, files: int = 6, distinct: int = 40) -> None:
    for number in range(files):
        (folder / f"{number % 2}").mkdir(parents=True, exist_ok=True)
        path = folder / f"{number % 2}" / f"{number}.parquet"
        pq.write_table(make_rows(rng, rng.randrange(1, 300), distinct), path, row_group_size=rng.choice([50, 1000]))


def find_rows(folder: Path, column: str, keys: Sequence[Any], columns: Sequence[str] | None) -> list[dict[str, Any]]:
    """Return the rows of keys by reading everything."""
    rows = [row for path in sorted(folder.rglob("*.parquet")) for row in pq.ParquetFile(path).read().to_pylist()]
    matching = [row for key in keys for row in rows if row[column] == key]
    return [{name: row[name] for name in columns or row} for row in matching]


KEYS = {
    "id": lambda number: number,
    "text": lambda number: f"text {number}",
    "uuid": lambda number: str(uuid.UUID(int=number)),
    "day": lambda number: DAY + dt.timedelta(number),
    "price": lambda number: Decimal(number) / 100,
    "ratio": float,
}


@pytest.mark.ci
@pytest.mark.parametrize("granularity", ["file", "row_group", None])
@pytest.mark.parametrize("seed", range(3))
def test_rows_are_those_of_a_scan_of_everything(seed: int, granularity: str | None, tmp_path: Path) -> None:
    rng = random.Random(seed)
    lake, index = tmp_path / "lake", tmp_path / "index"
    write_lake(lake, rng)
    if granularity is not None:
        with LakeIndex.create(index, list(KEYS), lake=lake, granularity=granularity) as made:  # type: ignore[arg-type]
            made.append()
    datasets = [parquet_bloom.dataset(lake, index=index if granularity else None)]
    if granularity is not None:
        datasets.append(parquet_bloom.dataset(LakeIndex.open(index)))
    for column, make_key in KEYS.items():
        for dataset in datasets:
            for columns in (None, ["row"], ["tags", column], [column], ["row", "text", "ratio"]):
                one = make_key(rng.randrange(50))
                assert dataset.get(column, one, columns).to_pylist() == find_rows(lake, column, [one], columns)
                keys = [make_key(rng.randrange(50)) for _ in range(rng.randrange(5))]
                assert dataset.get(column, keys, columns).to_pylist() == find_rows(lake, column, keys, columns)


def test_keys_of_several_columns(tmp_path: Path) -> None:
    rng = random.Random(0)
    write_lake(tmp_path / "lake", rng, distinct=4)
    with LakeIndex.create(tmp_path / "index", ["id"], lake=tmp_path / "lake") as index:
        index.append()
    rows = [row for path in sorted((tmp_path / "lake").rglob("*.parquet")) for row in pq.read_table(path).to_pylist()]
    for dataset in (
        parquet_bloom.dataset(tmp_path / "lake"),
        parquet_bloom.dataset(tmp_path / "lake", index=tmp_path / "index"),
    ):
        for keys in ([(1, "text 1")], [(1, "text 1"), (2, "text 3"), (3, "text 3"), (1, "text 1")], []):
            expected = [row for key in keys for row in rows if (row["id"], row["text"]) == key]
            assert dataset.get(["id", "text"], keys).to_pylist() == expected
        expected = [{"row": row["row"]} for row in rows if (row["id"], row["text"]) == (1, "text 1")]
        assert dataset.get(["id", "text"], (1, "text 1"), ["row"]).to_pylist() == expected
        table = pa.table({"text": ["text 1"], "id": [1]})
        assert dataset.get(["id", "text"], table, ["row"]).to_pylist() == expected


@pytest.mark.parametrize("keys", [pa.array([3, 1]), pa.chunked_array([[3], [1]]), (3, 1), {3: 0, 1: 0}.keys()])
def test_kinds_of_collections(keys: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(5)}), tmp_path / "a.parquet")
    assert parquet_bloom.dataset(tmp_path).get("id", keys)["id"].to_pylist() == [3, 1]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    folder = tmp_path / "lake"
    write_lake(folder, random.Random(1))
    with LakeIndex.create(tmp_path / "index", ["id", "text"], lake=folder, granularity="row_group") as index:
        index.append()
    return folder


def check(dataset: Any, folder: Path, keys: Sequence[int] = range(0, 50, 7)) -> None:
    for key in keys:
        assert dataset.get("id", key, ["id", "row"]).to_pylist() == find_rows(folder, "id", [key], ["id", "row"])


def add_file(lake: Path) -> None:
    write(lake / "0" / "new.parquet", 7)


def add_folder(lake: Path) -> None:
    (lake / "0" / "deep" / "er").mkdir(parents=True)
    write(lake / "0" / "deep" / "er" / "new.parquet", 7)


def replace_file(lake: Path) -> None:
    write(lake / "other", 7)
    os.replace(lake / "other", lake / "1" / "1.parquet")


def overwrite_file(lake: Path) -> None:
    """Write to a file in place, which does not change its folder."""
    write(lake / "1" / "3.parquet", 7)


def remove_file(lake: Path) -> None:
    os.remove(lake / "0" / "2.parquet")


def exchange_folder(lake: Path) -> None:
    os.rename(lake / "1", lake.parent / "1")
    (lake / "1").mkdir()
    write(lake / "1" / "1.parquet", 7)


def write(path: Path, key: int) -> None:
    pq.write_table(make_rows(random.Random(key), 20, 1).set_column(0, "id", pa.array([key] * 20)), path)


@pytest.mark.ci
@pytest.mark.parametrize(
    "change",
    [add_file, add_folder, replace_file, overwrite_file, remove_file, exchange_folder],
    ids=lambda f: f.__name__,
)
def test_changes_of_the_lake_are_noticed(change: Any, lake: Path) -> None:
    dataset = parquet_bloom.dataset(lake, index=lake.parent / "index")
    check(dataset, lake)
    check(dataset, lake)
    change(lake)
    check(dataset, lake)
    check(dataset, lake)


def test_an_empty_folder_that_gets_a_file(lake: Path) -> None:
    (lake / "empty").mkdir()
    dataset = parquet_bloom.dataset(f"{lake}/*/*.parquet", index=lake.parent / "index")
    check(dataset, lake)
    write(lake / "empty" / "new.parquet", 7)
    check(dataset, lake)


def test_files_that_changed_just_now_are_checked_each_time(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # they are not settled for two seconds
    dataset = parquet_bloom.dataset(lake, index=lake.parent / "index")
    check(dataset, lake)
    path = lake / "1" / "3.parquet"
    status = os.stat(path)
    write(path, 7)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    check(dataset, lake)


def test_new_files_are_opened_each_time_until_they_settle(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_file(lake)
    new = str(lake / "0" / "new.parquet")
    for kept in (True, False):
        dataset = parquet_bloom.dataset(lake, index=lake.parent / "index")
        check(dataset, lake)
        assert (new in dataset._lookups.session._known._files) == kept
        monkeypatch.setattr("parquet_bloom.file.metadata_cache.SETTLED_NS", 1 << 62)


def test_what_appears_while_the_state_of_a_lake_is_taken(lake: Path) -> None:
    """It is watched, or the state counts as another one at once."""
    roots = [str(lake)]

    def list_files(change: Any) -> list[str]:
        change()
        return sorted(map(str, lake.rglob("*.parquet")))

    watch = LocalWatch(roots, lambda: list_files(lambda: write(lake / "0" / "between.parquet", 7)))
    assert not watch.begin_check(CheckThreads())()
    watch = LocalWatch(roots, lambda: list_files(lambda: (lake / "1" / "between").mkdir()))
    assert not watch.begin_check(CheckThreads())()

    class Late(list[str]):
        """A folder appears after the folders are listed, and before their states are taken."""

        def __iter__(self) -> Iterator[str]:
            yield from super().__iter__()
            (lake / "1" / "late").mkdir(exist_ok=True)

    assert not LocalWatch(Late(roots), lambda: list_files(lambda: None)).is_settled
    assert LocalWatch(Late(roots), lambda: list_files(lambda: None)).is_settled


@pytest.mark.ci
def test_threads_that_compare_files_end_with_their_dataset(lake: Path) -> None:
    for number in range(130):  # files are compared by two threads from 128 on
        write(lake / "0" / f"more-{number}.parquet", 7)
    others = {*threading.enumerate()}
    dataset = parquet_bloom.dataset(lake, index=lake.parent / "index")
    check(dataset, lake)
    check(dataset, lake)
    threads = {*threading.enumerate()} - others
    assert any(thread.name.startswith("parquet-bloom-watch") for thread in threads)
    del dataset
    gc.collect()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_compares_files_in_threads_of_its_own() -> None:
    threads = CheckThreads()
    assert threads.submit(int).result() == 0
    child = os.fork()
    if not child:
        signal.alarm(120)  # ends a child that waits for a thread that it does not have
        os._exit(threads.submit(int).result())
    assert os.waitpid(child, 0)[1] == 0


def test_a_file_that_is_removed_while_rows_are_read(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the files were listed just now: the lookup begins anew."""
    dataset, plan, removed = parquet_bloom.dataset(lake, index=lake.parent / "index"), Lookup.plan, []

    def plan_and_remove(self: Lookup, *arguments: Any, **options: Any) -> Any:
        made = plan(self, *arguments, **options)
        if not removed:
            remove_file(lake)
            removed.append(made)
        return made

    monkeypatch.setattr(Lookup, "plan", plan_and_remove)
    rows = dataset.get("id", range(40), ["row"])
    assert str(lake / "0" / "2.parquet") in [file.path for file in removed[0].files]
    assert rows.to_pylist() == find_rows(lake, "id", range(40), ["row"])


def test_an_open_index_is_as_of_its_refresh(lake: Path) -> None:
    with LakeIndex.open(lake.parent / "index") as index:
        dataset = parquet_bloom.dataset(index)
        before = find_rows(lake, "id", [7], ["row"])
        assert dataset.get("id", 7, ["row"]).to_pylist() == before
        add_file(lake)
        assert dataset.get("id", 7, ["row"]).to_pylist() == before
        index.refresh()
        check(dataset, lake)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_file_of_an_open_index_that_is_replaced_is_read_as_it_is(is_known: bool, lake: Path) -> None:
    with LakeIndex.open(lake.parent / "index") as index:
        dataset = parquet_bloom.dataset(index)
        path = lake / "0" / "0.parquet"
        key = next(key for key in pq.ParquetFile(path).read_row_group(0)["id"].to_pylist() if key is not None)
        if is_known:
            assert dataset.get("id", key).num_rows
        rows = make_rows(random.Random(9), 3_000, 1).set_column(0, "id", pa.array([1 << 40] * 2_970 + [key] * 30))
        pq.write_table(rows, path, row_group_size=100)
        assert dataset.get("id", key, ["row"]).num_rows >= 30


def test_an_index_that_is_appended_to_meanwhile(lake: Path) -> None:
    dataset = parquet_bloom.dataset(lake, index=lake.parent / "index")
    check(dataset, lake)
    add_file(lake)
    with LakeIndex.open(lake.parent / "index") as index:
        index.append()
    check(dataset, lake)
    remove_file(lake)
    check(dataset, lake)


def test_files_that_another_process_adds_to_the_index_are_no_longer_read_each_time(lake: Path) -> None:
    add_file(lake)
    dataset = parquet_bloom.dataset(lake, index=lake.parent / "index")
    check(dataset, lake)
    assert dataset._lookups.session._index.unindexed == [str(lake / "0" / "new.parquet")]
    with LakeIndex.open(lake.parent / "index") as index:
        index.append()
    check(dataset, lake)
    assert dataset._lookups.session._index.unindexed == []


def test_an_index_that_is_compacted_meanwhile(lake: Path) -> None:
    dataset = parquet_bloom.dataset(lake, index=lake.parent / "index")
    check(dataset, lake)
    with LakeIndex.open(lake.parent / "index") as index:
        add_file(lake)
        index.append()
        index.compact(keep_seconds=0)
    check(dataset, lake)


@pytest.mark.ci
def test_threads_share_a_dataset(lake: Path) -> None:
    dataset = parquet_bloom.dataset(lake, index=lake.parent / "index")
    expected = {key: find_rows(lake, "id", [key], ["row"]) for key in range(50)}
    wrong = []

    def look_up(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(60):
            key = rng.randrange(50)
            if dataset.get("id", key, ["row"]).to_pylist() != expected[key]:
                wrong.append(key)

    threads = [threading.Thread(target=look_up, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_partition_columns_decide_by_folders(tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / "lake" / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": range(20), "day": [9] * 20}), tmp_path / "lake" / f"day={day}" / "a.parquet")
    with LakeIndex.create(tmp_path / "index", ["id", "day"], lake=tmp_path / "lake") as index:
        index.append()
    dataset = parquet_bloom.dataset(tmp_path / "lake", index=tmp_path / "index")
    for _ in range(2):
        assert dataset.get("id", 5).to_pylist() == [{"id": 5, "day": 1}, {"id": 5, "day": 2}]
        assert dataset.get("day", 2, ["id"]).num_rows == 20
        assert dataset.get("day", 9).num_rows == 0
        assert dataset.get(["id", "day"], [(5, 2), (6, 1)]).to_pylist() == [{"id": 5, "day": 2}, {"id": 6, "day": 1}]


def test_columns_of_other_types_in_some_files(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32()), "a": [1, 2]}), lake / "0.parquet")
    pq.write_table(pa.table({"id": pa.array([1, 1 << 40], pa.int64()), "b": ["x", "y"]}), lake / "1.parquet")
    with LakeIndex.create(tmp_path / "index", ["id"], lake=lake) as index:
        index.append()
    dataset = parquet_bloom.dataset(lake, index=tmp_path / "index", schema=parquet_bloom.dataset(lake).schema)
    for _ in range(2):
        assert dataset.get("id", 1).to_pylist() == [{"id": 1, "a": 1, "b": None}, {"id": 1, "a": None, "b": "x"}]
        assert dataset.get("id", 1 << 40).to_pylist() == [{"id": 1 << 40, "a": None, "b": "y"}]
        assert dataset.get("id", 1 << 70).num_rows == 0


def test_times_that_a_clock_change_repeats_are_different_keys(tmp_path: Path) -> None:
    paris = ZoneInfo("Europe/Paris")
    before, after = (dt.datetime(2021, 10, 31, 2, 30, tzinfo=paris, fold=fold) for fold in (0, 1))
    assert before == after  # to Python
    assert Equal("t", before) != Equal("t", after)
    (tmp_path / "lake").mkdir()
    for number, moment in enumerate([before, after]):
        table = pa.table({"t": pa.array([moment], pa.timestamp("us", tz="Europe/Paris")), "row": [number]})
        pq.write_table(table, tmp_path / "lake" / f"{number}.parquet")
    with LakeIndex.create(tmp_path / "index", ["t", "(t, row)"], lake=tmp_path / "lake") as index:
        index.append()
        answers = index.lookup("t", [before, after])
        assert [[os.path.basename(one.path) for one in answer] for answer in answers] == [["0.parquet"], ["1.parquet"]]
    dataset = parquet_bloom.dataset(tmp_path / "lake", index=tmp_path / "index")
    assert dataset.get("t", [after, before])["row"].to_pylist() == [1, 0]
    assert dataset.get(["t", "row"], [(after, 1), (before, 0)])["row"].to_pylist() == [1, 0]


def test_leaves_of_structs(tmp_path: Path) -> None:
    """Columns and types are the dataset's, also where no file has rows, or files have other columns."""
    lake = tmp_path / "lake"
    lake.mkdir()
    tables = [
        pa.table({"st": [{"x": 1, "y": "a", "z": {"w": 1}}, None], "row": [0, 1], "more": [0.5, 1.5]}),
        pa.table({"row": pa.array([2, 3], pa.int32()), "st": [{"y": "b", "x": 2}, {"y": "c", "x": 1}]}),
    ]
    for number, table in enumerate(tables):
        pq.write_table(table, lake / f"{number}.parquet")
    with LakeIndex.create(tmp_path / "index", ["st.x", "row"], lake=lake) as index:
        index.append()
    schema = parquet_bloom.dataset(lake).schema
    st = schema.field("st").type
    for dataset in (
        parquet_bloom.dataset(lake, schema=schema),
        parquet_bloom.dataset(lake, index=tmp_path / "index", schema=schema),
    ):
        for keys, rows in ((1, [0, 3]), ([2, 1], [2, 0, 3]), (2, [2]), ([2], [2]), (9, []), ([9], [])):
            for names in (
                ["row"],
                ["more", "row"],
                ["st.y", "row"],
                ["row", "st.z.w", "st.x"],
                ["row", "st"],
                ["row"] * 2,
            ):
                found = dataset.get("st.x", keys, names)
                assert found["row"].to_pylist() == rows
                assert found.column_names == [*dict.fromkeys(name.split(".")[0] for name in names)]
                assert found.schema.field("row").type == pa.int64()
        assert dataset.get("row", [3, 1], ["st.x", "st.z.w"])["st"].to_pylist() == [{"x": 1, "z": None}, None]
        assert dataset.get("row", 3, ["st.y"]).schema == pa.schema([pa.field("st", pa.struct([st.field("y")]))])
        assert dataset.get("st.x", [1, 2], []).num_rows == 3
        assert dataset.get("st.x", [9]).schema == schema
        with pytest.raises(UnknownColumnError, match="did you mean"):
            dataset.get("row", [1], ["st.xx"])


def test_what_is_no_key(lake: Path) -> None:
    dataset = parquet_bloom.dataset(lake, index=lake.parent / "index")
    for keys in (None, [1, None], [[1]], object()):
        with pytest.raises(PredicateError):
            dataset.get("id", keys)
    with pytest.raises(PredicateError):
        dataset.get("id", "text")
    for column in ("none", "tags.x"):
        with pytest.raises(UnknownColumnError):
            dataset.get(column, 1)
    with pytest.raises(UnknownColumnError):
        dataset.get("id", 1, ["none"])
    for key in ((1,), (1, 2, 3)):
        with pytest.raises(PredicateError):
            dataset.get(["id", "text"], key)
    with pytest.raises(PredicateError):
        dataset.get([], [()])
    with pytest.raises(ParquetBloomError):
        dataset.get("id", 1, "row")


def test_a_copy_looks_up_the_same(lake: Path) -> None:
    dataset = parquet_bloom.dataset(lake, index=lake.parent / "index")
    check(dataset, lake)
    check(pickle.loads(pickle.dumps(dataset)), lake)


def test_an_index_that_is_gone(lake: Path) -> None:
    dataset = parquet_bloom.dataset(lake, index=lake.parent / "index")
    shutil.rmtree(lake.parent / "index")
    with pytest.raises(ParquetBloomError, match="no index"):
        dataset.get("id", 1)

"""Test `prune` with a lake index: what it rules out, what it must not, and the doubts if it cannot be used."""

from __future__ import annotations

import errno
import os
import random
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import BrokenIndexError, ParquetBloomError, StorageError, UnknownColumnError
from parquet_bloom.lake.lake_index import LakeIndex
from parquet_bloom.scan.model.scan_plan import FilePlan, RowGroupPlan
from parquet_bloom.scan.plan_document import row_group_state
from parquet_bloom.scan.row_reader import RowReader
from parquet_bloom.types import PruneReport

FILES, ROWS = 6, 60
EVERYWHERE = 7


pytestmark = pytest.mark.usefixtures("settled_tokens")


def tick() -> None:
    time.sleep(0.02)


def write(path: Path, ids: Iterable[int], **columns: Any) -> str:
    """A file whose ranges and null counts say nothing: they are not written."""
    values = list(ids)
    table = {"id": pa.array(values, pa.int64()), "name": [f"n{value}" for value in values]} | columns
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(table), path, row_group_size=20, write_statistics=False, use_dictionary=False)
    return str(path)


def ids_of(number: int) -> list[int]:
    return [*random.Random(number).sample(range(1000, 10**9), ROWS - 1), EVERYWHERE]


@pytest.fixture
def lake(tmp_path: Path) -> dict[str, list[int]]:
    return {write(tmp_path / "lake" / f"{n}.parquet", ids_of(n)): ids_of(n) for n in range(FILES)}


def make(tmp_path: Path, columns: Any = ("id", "name"), granularity: Any = "file", files: Any = None) -> str:
    path = tmp_path / "index"
    with LakeIndex.create(path, list(columns), granularity=granularity) as index:
        index.append(tmp_path / "lake" if files is None else files)
    return str(path)


def ruled_out(report: PruneReport) -> set[str]:
    return {file.path for file in report.files if file.unopened and file.unopened_by == "index"}


def ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


# ------------------------------------------------------------------------------------------------ what it rules out


def test_files_that_the_index_rules_out_are_not_opened(tmp_path: Path, lake: dict[str, list[int]]) -> None:
    index, (first, *others) = make(tmp_path), lake
    where = f"id = {lake[first][3]}"
    for queried in (index, Path(index), LakeIndex.open(index, live=False), LakeIndex.open(index)):
        for paths in (tmp_path / "lake", list(lake), str(tmp_path / "lake" / "*.parquet")):
            report = parquet_bloom.prune(paths, where, index=queried, cache=None)
            assert ruled_out(report) == set(others)
            assert report.selected == {first: [0, 1, 2]}
            assert (report.total_files, report.unopened_files, report.unopened_by) == (FILES, FILES - 1, {"index": 5})
            assert report.total_row_groups == 3
            assert report.index_doubts == []
    (decision,) = [file for file in report.files if file.path == others[0]]
    assert decision.unopened == "the index says: 'id' is absent"
    assert str(report).startswith("read 1 of 6 files, 3 of 3 row groups; 5 files ruled out by the index; ")
    assert f"{others[0]}: not opened: the index says: 'id' is absent" in report.explain()
    assert "not opened: 5 files ruled out by the index" in report._repr_html_()
    assert ids(parquet_bloom.read_table(tmp_path / "lake", where, index=index)) == [lake[first][3]]


def test_files_ruled_out_need_not_be_readable(tmp_path: Path, lake: dict[str, list[int]]) -> None:
    first, second, *_ = lake
    index = LakeIndex.open(make(tmp_path))
    where = f"id = {lake[first][0]}"
    inode = os.stat(second)
    with open(second, "r+b") as file:  # as if nobody had touched it
        file.write(b"no Parquet")
    before = parquet_bloom.prune(list(lake), where, on_error=lambda error: None, index=index, cache=None)
    assert second not in ruled_out(before)  # its times show it
    index.refresh()
    assert second in index.unindexed
    assert inode.st_ino == os.stat(second).st_ino


@pytest.mark.ci
@pytest.mark.parametrize("granularity", ["file", "row_group"])
def test_every_value_is_found_and_few_others_are_opened(
    tmp_path: Path, lake: dict[str, list[int]], granularity: str
) -> None:
    with LakeIndex.open(make(tmp_path, granularity=granularity)) as index:
        for path, values in lake.items():
            for at in (0, 25, 58):
                for where in (f"id = {values[at]}", f"name = 'n{values[at]}'", [("id", "in", [values[at], -5])]):
                    report = parquet_bloom.prune(tmp_path / "lake", where, index=index)
                    assert path in report.selected
                    assert at // 20 in report.selected[path]
                    if granularity == "row_group":
                        assert report.selected[path] == [at // 20]
                        assert report.skipped_by == {"index": 2}
                        skipped = report.files[list(lake).index(path)].row_groups[(at // 20 + 1) % 3]
                        assert skipped.by == {"index"}
                        assert skipped.reason.startswith("the index says: ")
                        assert skipped.num_rows == 20
        everywhere = parquet_bloom.prune(tmp_path / "lake", f"id = {EVERYWHERE}", index=index)
        assert everywhere.selected_files == FILES
        absent = parquet_bloom.prune(tmp_path / "lake", "id = 5 OR name = 'none'", index=index)
        assert absent.selected_files <= 1
        assert "'id' is absent; 'name' is absent" in absent.files[0].unopened


def test_files_without_an_index_answer_are_read(tmp_path: Path, lake: dict[str, list[int]]) -> None:
    index = make(tmp_path, ["id"])
    for where in ("id > 5", "id <> 5", "id IS NOT NULL", "id = 5 OR name = 'x'", "name = 'x'", "NOT (id IN (5, 6))"):
        report = parquet_bloom.prune(tmp_path / "lake", where, index=index)
        assert (report.selected_files, ruled_out(report)) == (FILES, set()), where
    assert parquet_bloom.prune(tmp_path / "lake", "id = 5 AND name = 'x'", index=index).selected_files <= 1


def test_types_nulls_and_lists(tmp_path: Path) -> None:
    values = {
        "a": {"k": pa.array([1, None, 3], pa.int32()), "tags": [[1, 2], [], None]},
        "b": {"k": pa.array([4, 5, None], pa.int64()), "tags": [[3], [4], [5]]},
        "c": {"k": pa.array(["1", "x", None]), "tags": [["u"], ["v"], None]},
        "d": {},
    }
    for name, columns in values.items():
        write(tmp_path / "lake" / f"{name}.parquet", [1, 2, 3], **columns)
    index = make(tmp_path, ["k", "tags"])
    expected = {
        "k = 1": {"a", "c", "d"},  # of a text nobody says that it is none
        "k = 4.0": {"b", "c", "d"},
        "k = 4.5": {"c", "d"},
        "k = 'x'": {"a", "b", "c", "d"},
        "k IS NULL": {"a", "b", "c", "d"},
        "k <=> 3": {"a", "c", "d"},
        "array_contains(tags, 4)": {"b", "c", "d"},
        "NOT array_contains(tags, 4)": {"a", "b", "c", "d"},
        "array_contains(tags, 2) AND k = 5": {"c", "d"},
        "k = 1 OR array_contains(tags, 3)": {"a", "b", "c", "d"},
    }
    for where, names in expected.items():
        report = parquet_bloom.prune(tmp_path / "lake", where, index=index)
        assert {Path(path).stem for path in {file.path for file in report.files} - ruled_out(report)} == names, where


def test_names_in_another_case(tmp_path: Path) -> None:
    one = write(tmp_path / "lake" / "one.parquet", [1, 2], ID=[5, 6])  # it has both
    other = write(tmp_path / "lake" / "other.parquet", [3, 4])
    index = make(tmp_path, ["id"])
    report = parquet_bloom.prune(tmp_path / "lake", "ID = 5", index=index, case_sensitive=False)
    assert ruled_out(report) == {other}
    _, batches = RowReader(report, ["id", "ID"]).read_batches()
    assert [batch.to_pylist() for batch in batches] == [[{"id": 1, "ID": 5}]]
    assert one in report.selected
    with pytest.raises(UnknownColumnError):
        parquet_bloom.prune(other, "ID = 5", index=index)


# ------------------------------------------------------------------------------------------------ folders


def test_partition_columns_are_not_looked_up_in_the_index(tmp_path: Path) -> None:
    for day in (1, 2):
        for n in range(2):
            # A file's column with the partition column's name is not meant.
            path = tmp_path / "lake" / f"day={day}" / f"{n}.parquet"
            write(path, [10 * day + n], day=pa.array([99], pa.int64()))
    index = make(tmp_path, ["id", "day"])
    every = sorted(str(path) for path in (tmp_path / "lake").rglob("*.parquet"))
    report = parquet_bloom.prune(tmp_path / "lake", "day = 1", index=index)
    assert report.selected_files == 2
    assert report.unopened_by == {"partition": 2}
    both = parquet_bloom.prune(tmp_path / "lake", "day = 1 AND id = 10", index=index)
    assert both.unopened_by == {"partition": 2, "index": 1}
    assert list(both.selected) == every[:1]
    assert "; 2 files in other partitions; 1 file ruled out by the index; " in str(both)
    text = both._repr_html_()
    assert "2 files in other partitions, 1 file ruled out by the index" in text
    either = parquet_bloom.prune(tmp_path / "lake", "day = 1 OR id = 20", index=index)
    assert (list(either.selected), ruled_out(either)) == (every[:3], {every[3]})
    # Where folders are mere names the files' own column counts.
    plain = parquet_bloom.prune(tmp_path / "lake", "day = 1", index=index, partitioning=None)
    assert len(ruled_out(plain)) == 4
    assert ids(parquet_bloom.read_table(None, "day = 2 AND id IN (20, 10)", index=index)) == [20]
    assert parquet_bloom.read_table(None, "day = 2 AND id = 20", ["day"], index=index).to_pylist() == [{"day": 2}]


# ------------------------------------------------------------------------------------------------ changes


def test_files_that_came_changed_or_went(tmp_path: Path, lake: dict[str, list[int]]) -> None:
    index = make(tmp_path)
    opened_index = LakeIndex.open(index)
    tick()
    first, second, third, *_ = lake
    new = write(tmp_path / "lake" / "new.parquet", [5])
    write(Path(first), [5])
    os.replace(write(tmp_path / "aside.parquet", [5]), second)
    os.unlink(third)
    for queried in (index, opened_index):
        report = parquet_bloom.prune(tmp_path / "lake", "id = 5", index=queried)
        assert set(report.selected) == {first, second, new}
        assert ruled_out(report) == set(lake) - {first, second, third}
        assert ids(parquet_bloom.read_table(tmp_path / "lake", "id = 5", index=queried)) == [5, 5, 5]
    assert set(parquet_bloom.prune(None, "id = 5", index=index).selected) == {first, second, new}
    opened_index.refresh()
    assert set(parquet_bloom.prune(None, "id = 5", index=opened_index).selected) == {first, second, new}


def test_a_file_that_is_exchanged_for_one_of_the_same_size(tmp_path: Path) -> None:
    options = {"use_dictionary": False, "compression": "none", "write_statistics": False}
    path = tmp_path / "lake" / "a.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3]}), path, **options)
    index, before = make(tmp_path, ["id"]), os.stat(path)
    tick()
    pq.write_table(pa.table({"id": [4, 5, 6]}), tmp_path / "b.parquet", **options)
    shutil.copyfile(tmp_path / "b.parquet", path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (os.stat(path).st_size, os.stat(path).st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert ids(parquet_bloom.read_table(path, "id = 5", index=index)) == [5]
    assert ids(parquet_bloom.read_table(None, "id = 5", index=index)) == [5]


def test_files_with_filters_embedded_since(tmp_path: Path, lake: dict[str, list[int]]) -> None:
    index, (first, *others) = make(tmp_path, granularity="row_group"), lake
    tick()
    for path in lake:
        parquet_bloom.embed(path, ["id"])
    where = f"id = {lake[first][30]}"
    # Without a look into them nobody knows that nothing else was done to them.
    blind = parquet_bloom.prune(tmp_path / "lake", where, index=index)
    assert (ruled_out(blind), blind.selected) == (set(), {first: [1]})
    for queried in (LakeIndex.open(index), index):
        report = parquet_bloom.prune(None, where, index=queried)
        assert (ruled_out(report), report.selected) == (set(others), {first: [1]})
    with LakeIndex.open(index) as looked:
        assert ruled_out(parquet_bloom.prune(tmp_path / "lake", where, index=looked)) == set(others)


def test_row_groups_of_another_file_are_not_skipped(
    tmp_path: Path, lake: dict[str, list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may be replaced between the look at its times and its opening."""
    path, values = next(iter(lake.items()))
    index = make(tmp_path, granularity="row_group")
    where = f"id IN ({values[0]}, 5)"
    assert parquet_bloom.prune(path, where, index=index).selected == {path: [0]}
    tick()
    from parquet_bloom.lake import index_pruning

    stamps_of = index_pruning.read_version_tokens

    def then_replaced(*queried: Any) -> Any:
        result = stamps_of(*queried)
        write(Path(path), [*range(100, 140), 5])
        return result

    monkeypatch.setattr(index_pruning, "read_version_tokens", then_replaced)
    report = parquet_bloom.prune(path, where, index=index, cache=None)
    assert 2 in report.selected[path]


# ------------------------------------------------------------------------------------------------ the index's own files


def test_without_paths_the_files_are_those_of_the_index(tmp_path: Path, lake: dict[str, list[int]]) -> None:
    index, (first, *others) = make(tmp_path), lake
    where = f"id = {lake[first][3]}"
    tick()
    with LakeIndex.open(index) as opened_index:
        for queried in (index, opened_index):
            report = parquet_bloom.prune(None, where, index=queried)
            assert [file.path for file in report.files] == sorted(lake)
            assert (ruled_out(report), list(report.selected)) == (set(others), [first])
            assert ids(parquet_bloom.read_table(None, where, index=queried)) == [lake[first][3]]
            assert parquet_bloom.dataset(None, index=queried).scan(where).to_reader().read_all().num_rows == 1
            assert parquet_bloom.dataset(None, index=queried).scan(where).row_ranges() == {
                first: {group: [(0, 20)] for group in range(3)}
            }
            dataset = parquet_bloom.dataset(queried if queried is opened_index else None, index=queried)
            assert dataset.count_rows() == ROWS * len(lake)
            (fragment,) = dataset.get_fragments(pc.field("id") == lake[first][3])
            assert fragment.path == first
    named = LakeIndex.create(tmp_path / "named", ["id"])
    named.append([first])
    assert list(parquet_bloom.prune(None, where, index=named).selected) == [first]
    with LakeIndex.open(index, live=False) as blind, pytest.raises(ParquetBloomError, match="live=False"):
        parquet_bloom.prune(None, where, index=blind)
    with pytest.raises(ParquetBloomError, match="with index= it may be left out"):
        parquet_bloom.prune(None, where)
    with pytest.raises(ParquetBloomError, match="with index= it may be left out"):
        parquet_bloom.read_table(None, where)
    assert parquet_bloom.prune([], where, index=index).files == []


def test_values_at_hand_without_files(tmp_path: Path) -> None:
    with LakeIndex.create(tmp_path / "index", ["id"]) as index:
        index.append_batches(
            [("no/such-1.parquet", {"id": pa.array([1, 2])}), ("no/such-2.parquet", {"id": pa.array([3])})]
        )
        report = parquet_bloom.prune(None, "id = 9", index=index)
        assert (report.total_files, report.unopened_files) == (2, 2)
        failed: list[ParquetBloomError] = []
        parquet_bloom.prune(None, "id = 3", index=index, on_error=failed.append)
        assert [error.path for error in failed] == ["no/such-2.parquet"]


def test_a_column_is_known_if_the_index_has_it(tmp_path: Path, lake: dict[str, list[int]]) -> None:
    index = make(tmp_path)
    assert parquet_bloom.prune(tmp_path / "lake", "id = 5 AND name = 'x'", index=index).unopened_files == FILES
    assert parquet_bloom.read_table(tmp_path / "lake", "id = 5", index=index).num_rows == 0
    with pytest.raises(UnknownColumnError):
        parquet_bloom.prune(tmp_path / "lake", f"nope = 5 AND id = {EVERYWHERE}", index=index)
    with pytest.raises(UnknownColumnError):
        parquet_bloom.prune(tmp_path / "lake", "nope = 5 OR id = 5", index=index)


# -------------------------------------------------------------------------------------------------- invalid queries


def test_a_path_without_an_index_is_an_error(tmp_path: Path, lake: dict[str, list[int]]) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "nowhere", tmp_path / "empty", tmp_path / "lake", next(iter(lake))):
        for paths in (tmp_path / "lake", None):
            with pytest.raises(StorageError) as caught:
                parquet_bloom.prune(paths, "id = 5", index=path)
            assert caught.value.errno in (errno.ENOENT, errno.ENOTDIR)


@pytest.mark.ci
def test_a_damaged_index_rules_nothing_out_wrongly(tmp_path: Path, lake: dict[str, list[int]]) -> None:
    index = Path(make(tmp_path, granularity="row_group"))
    first = next(iter(lake))
    where = f"id = {lake[first][30]}"
    chance = random.Random(1)
    names = sorted(path.name for path in index.iterdir() if path.name != "writer.lock")
    assert {name.rpartition(".")[2] for name in names} == {"json", "files", "postings"}
    doubted = 0
    for name in names:
        path = index / name
        data = path.read_bytes()
        harms: list[bytes | None] = [None, b"", data[: len(data) // 2], data + b"x"]
        for _ in range(25):
            damaged = bytearray(data)
            damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            harms.append(bytes(damaged))
        for harm in harms:
            if harm is None:
                path.unlink()
            else:
                path.write_bytes(harm)
            try:
                report = parquet_bloom.prune(tmp_path / "lake", where, index=index)
            except StorageError as error:
                assert (harm, error.problem) == (None, "there is no index")  # noqa: PT017
                continue
            assert 1 in report.selected[first]
            if report.index_doubts:
                doubted += 1
                assert name in report.index_doubts[0]
                assert ruled_out(report) == set()
                assert "; the index is doubtful" in str(report)
                assert f"the index is doubtful: {report.index_doubts[0]}" in report.explain()
                assert "The index is doubtful" in report.to_html()
            else:
                assert harm is None or report.selected == {first: [1]}  # else an older state of it
        path.write_bytes(data)
    assert doubted > 40
    assert parquet_bloom.prune(tmp_path / "lake", where, index=index).index_doubts == []


def test_a_damaged_index_cannot_say_which_files_there_are(tmp_path: Path, lake: dict[str, list[int]]) -> None:
    index = Path(make(tmp_path))
    (table,) = index.glob("*.files")
    table.write_bytes(table.read_bytes()[:-1])
    with pytest.raises(BrokenIndexError):
        parquet_bloom.prune(None, "id = 5", index=index)
    report = parquet_bloom.prune(list(lake), "id = 5", index=index)
    assert (report.selected_files, len(report.index_doubts)) == (FILES, 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_index_that_may_not_be_read_is_doubtful(tmp_path: Path, lake: dict[str, list[int]]) -> None:
    index = make(tmp_path)
    os.chmod(index, 0)
    try:
        report = parquet_bloom.prune(list(lake), "id = 5", index=index)
    finally:
        os.chmod(index, 0o700)
    assert (report.selected_files, len(report.index_doubts)) == (FILES, 1)


# ------------------------------------------------------------------------------------------------ object stores


@pytest.mark.ci
def test_lake_and_index_in_an_object_store(s3: Any, tmp_path: Path, lake: dict[str, list[int]]) -> None:
    for path in lake:
        s3.put(f"lake/{Path(path).name}", Path(path).read_bytes())
    index = s3.url("index")
    options: dict[str, Any] = {"storage_options": s3.storage_options}
    with LakeIndex.create(index, ["id"], granularity="row_group", **options) as created:
        created.append(s3.url("lake/"))
    first = lake[next(iter(lake))]
    where = f"id = {first[30]}"
    one = s3.url("lake/0.parquet")
    for paths in (s3.url("lake/"), None, [s3.url(f"lake/{n}.parquet") for n in range(FILES)]):
        s3.clear_log()
        report = parquet_bloom.prune(paths, where, index=index, cache=None, **options)
        assert report.selected == {one: [1]}
        assert len(ruled_out(report)) == FILES - 1
        opened = {request.key for request in s3.log if request.operation == "GetObject"}
        if not isinstance(paths, list):  # files that were not listed need a request
            assert {key for key in opened if key.startswith("lake/")} == {"lake/0.parquet"}
        sent = sum(request.received for request in s3.log if request.operation == "GetObject")
        assert report.bytes_read == sent
        requests = [request for request in s3.log if request.operation in ("GetObject", "HeadObject")]
        # Of listings, that of the lake is prune's own; the index's are not counted.
        listings = [request for request in s3.log if request.query.get("prefix") == "lake/" and paths is not None]
        assert report.requests == len(requests) + len(listings)
        table = parquet_bloom.read_table(paths, where, index=index, **options)
        assert ids(table) == [first[30]]
    with LakeIndex.open(index, **options) as opened_index:
        assert ids(parquet_bloom.read_table(None, where, index=opened_index, **options)) == [first[30]]
        assert ids(parquet_bloom.read_table(None, where, index=opened_index)) == [first[30]]
    s3.put("lake/0.parquet", Path(write(tmp_path / "other.parquet", [5])).read_bytes())
    for paths in (s3.url("lake/"), None):
        assert ids(parquet_bloom.read_table(paths, "id = 5", index=index, **options)) == [5]
    for listed in s3.client().list_objects_v2(Bucket=s3.bucket, Prefix="index/")["Contents"]:
        if listed["Key"].endswith(".postings"):
            s3.put(listed["Key"], b"x" * listed["Size"])
    report = parquet_bloom.prune(s3.url("lake/"), "id = 5", index=index, **options)
    assert (one in report.selected, len(report.index_doubts)) == (True, 1)
    with pytest.raises(StorageError, match="there is no index"):
        parquet_bloom.prune(s3.url("lake/"), "id = 5", index=s3.url("nowhere"), **options)


def test_a_local_index_of_a_lake_in_an_object_store(s3: Any, tmp_path: Path, lake: dict[str, list[int]]) -> None:
    for path in lake:
        s3.put(f"lake/{Path(path).name}", Path(path).read_bytes())
    options: dict[str, Any] = {"storage_options": s3.storage_options}
    with LakeIndex.create(tmp_path / "index", ["id"], lake_storage_options=s3.storage_options) as created:
        created.append(s3.url("lake/"))
    for paths in (s3.url("lake/"), None):
        report = parquet_bloom.prune(paths, "id = 5", index=tmp_path / "index", **options)
        assert len(ruled_out(report)) == FILES


# ------------------------------------------------------------------------------------------------ pictures, reports


def test_the_picture_tells_the_index_from_folders() -> None:
    skipped = RowGroupPlan(0, False, frozenset({"index"}), "the index says: no row of it matches", num_rows=5)
    assert row_group_state(skipped).key == "index"
    files = [
        FilePlan("a", (skipped, RowGroupPlan(1, True, num_rows=5))),
        FilePlan("b", (), "its folder says k is 1"),
        FilePlan("c", (), "the index says: 'id' is absent", unopened_by="index"),
    ]
    report = PruneReport("id = 1", files, index_doubts=["x: damaged"])
    assert report.unopened_by == {"partition": 1, "index": 1}
    text = report._repr_html_()
    for label in ("skipped by the index", "file ruled out by the index", "file in another partition"):
        assert text.count(f"{label} <b>1</b>") == 1
    assert str(report) == (
        "read 1 of 3 files, 1 of 2 row groups; 1 file in other partitions; 1 file ruled out by the index; "
        "the index is doubtful"
    )


def test_rows_are_not_written_into_a_file_of_the_index(tmp_path: Path, lake: dict[str, list[int]]) -> None:
    from click.testing import CliRunner

    from parquet_bloom.cli import tool

    index, (first, *_) = make(tmp_path), lake
    for target in (first, str(tmp_path / "lake" / "new.parquet")):
        refused = CliRunner().invoke(tool, ["find", "--index", index, "--where", "id = 5", "-o", target])
        assert refused.exit_code == 2

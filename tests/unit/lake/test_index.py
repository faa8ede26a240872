"""The lake index as callers use it, held against a dictionary of what is in which file."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import parquet_bloom
from parquet_bloom.errors import (
    BrokenIndexError,
    IndexInUseError,
    ManagedTableError,
    ParquetBloomError,
    PredicateError,
    StorageError,
    UnknownColumnError,
)
from parquet_bloom.lake import index_manifest
from parquet_bloom.lake.lake_index import LakeIndex

LAYOUTS = ["postings", "cuckoo"]
SETTINGS: dict[str, dict[str, Any]] = {"postings": {}, "cuckoo": {"num_buckets": 50}}


def write(path: Path, ids: Iterable[int], **options: Any) -> str:
    """A file with a column of whole numbers and one of texts; its times are long ago, as most files' are."""
    values = list(ids)
    table = pa.table({"id": pa.array(values, pa.int64()), "name": pa.array([f"n{value}" for value in values])})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **({"row_group_size": 50} | options))
    return str(path)


SETTLED = 0.02  # seconds, in place of two: a local disk's times are finer than that


@pytest.fixture(autouse=True)
def settles_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("identity", "metadata_cache"):
        monkeypatch.setattr(f"parquet_bloom.file.{module}.SETTLED_NS", round(SETTLED * 1e9))


def settle() -> None:
    """Wait until a file's times show every later change."""
    time.sleep(2 * SETTLED)


def lake(folder: Path, files: int = 6, rows: int = 200, seed: int = 1) -> dict[str, set[int]]:
    chance = np.random.default_rng(seed)
    results = {}
    for number in range(files):
        ids = chance.integers(0, 10**12, rows).tolist()
        ids += [7, number]  # one value that all have, and one of few
        results[write(folder / f"part-{number}.parquet", ids)] = set(ids)
    return results


def make(path: Path, layout: str = "postings", **options: Any) -> LakeIndex:
    return LakeIndex.create(path, ["id", "name"], layout=layout, **(SETTINGS[layout] | options))


def files_of(answer: list[Any]) -> set[str]:
    return {candidate.path for candidate in answer}


def assert_right(index: LakeIndex, truth: dict[str, set[int]], most_false: int = 3) -> None:
    """Every value of every file is found there, by both columns; few others are."""
    values = sorted(set().union(*truth.values()))
    false = 0
    for column, spelled in (("id", values), ("name", [f"n{value}" for value in values])):
        answers = index.lookup(column, spelled)
        assert answers.doubts == []
        for value, answer in zip(values, answers, strict=True):
            paths = [candidate.path for candidate in answer]
            assert len(paths) == len(set(paths))
            holders = {path for path, ids in truth.items() if value in ids}
            assert holders <= set(paths)
            false += len(set(paths) - holders)
    assert false <= most_false
    absent = [-value - 1_000 for value in values]
    assert sum(map(len, index.lookup("id", absent))) <= most_false


@pytest.mark.parametrize("layout", LAYOUTS)
def test_append_and_lookup(tmp_path: Path, layout: str) -> None:
    truth = lake(tmp_path / "lake")
    with make(tmp_path / "index", layout) as index:
        report = index.append(tmp_path / "lake")
        assert (report.added, report.replaced, report.unchanged) == (6, 0, 0)
        assert_right(index, truth)
        again = index.append(tmp_path / "lake")
        assert (again.added, again.unchanged) == (0, 6)
    with LakeIndex.open(tmp_path / "index") as index:
        assert index.columns == ("id", "name")
        assert_right(index, truth)
        stats = index.stats()
        assert (stats.files, stats.unindexed, stats.changed, stats.gone) == (6, 0, 0, 0)
        assert stats.entries["id"] == sum(map(len, truth.values()))
        assert index.check(sample=3).problems == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_row_groups(tmp_path: Path, layout: str) -> None:
    path = write(tmp_path / "lake" / "a.parquet", range(500))
    with make(tmp_path / "index", layout, granularity="row_group") as index:
        index.append(path)
        for value, answer in zip(range(500), index.lookup("id", range(500)), strict=True):
            (matches,) = answer
            assert matches.path == path
            assert value // 50 in (matches.row_groups or ())
            assert len(matches.row_groups or ()) <= 2


@pytest.mark.ci
@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_appends_are_merged_and_stay_right(tmp_path: Path, layout: str) -> None:
    truth: dict[str, set[int]] = {}
    with make(tmp_path / "index", layout) as index:
        for number in range(20):
            ids = {number, 7, *range(1000 * number, 1000 * number + 40)}
            truth[write(tmp_path / "lake" / f"{number}.parquet", sorted(ids))] = ids
            index.append(tmp_path / "lake")
        assert index.stats().segments < 12
        assert_right(index, truth)
        report = index.compact(keep_seconds=0)
        assert report.segments_after == 1
        assert_right(index, truth)
        assert index.check(sample=20).problems == []
        names = os.listdir(tmp_path / "index")
    assert sum(name.startswith("manifest-") for name in names) == 1
    assert sum(name.endswith(".files") for name in names) == 1
    assert sum(name.endswith(layout) for name in names) == 2


@pytest.mark.parametrize("layout", LAYOUTS)
def test_removed_files(tmp_path: Path, layout: str) -> None:
    truth = lake(tmp_path / "lake")
    one, other, *_ = truth
    with make(tmp_path / "index", layout) as index:
        index.append(tmp_path / "lake")
        assert index.remove(one) == 1
        # It still is in the lake, where nobody knows any more what it holds.
        assert index.unindexed == [one]
        assert one in files_of(index.lookup("id", [-1])[0])
        os.unlink(one)
        index.refresh()
        assert index.unindexed == []
        assert_right(index, {path: ids for path, ids in truth.items() if path != one})
        os.unlink(other)
        index.refresh()
        assert index.stats().gone == 1
        rest = {path: ids for path, ids in truth.items() if path not in (one, other)}
        assert_right(index, rest)
        assert index.compact().dropped == 2
        assert index.stats().files == 4
        assert_right(index, rest)
        with pytest.raises(StorageError, match="the index has no such file"):
            index.remove([other])
        assert index.remove(str(tmp_path / "lake") + "/") == 4


def test_new_and_changed_files_are_always_candidates(tmp_path: Path) -> None:
    truth = lake(tmp_path / "lake")
    settle()
    with make(tmp_path / "index") as index:
        index.append(tmp_path / "lake")
        new = write(tmp_path / "lake" / "new.parquet", [1, 2, 3])
        changed = write(Path(next(iter(truth))), [-5, -6])
        index.refresh()
        assert set(index.unindexed) == {new, changed}
        assert files_of(index.lookup("id", [-5])[0]) == {new, changed}
        stats = index.stats()
        assert (stats.unindexed, stats.changed) == (2, 1)
        report = index.append()
        assert (report.added, report.replaced, report.unchanged) == (1, 1, 5)
        assert_right(index, truth | {new: {1, 2, 3}, changed: {-5, -6}})


def test_the_same_bytes_with_other_values_under_the_same_footer(tmp_path: Path) -> None:
    plain = {"use_dictionary": False, "compression": "NONE", "write_statistics": False}
    path = write(tmp_path / "lake" / "a.parquet", [1, 2, 3], **plain)
    settle()
    with make(tmp_path / "index") as index:
        index.append(tmp_path / "lake")
        size = os.path.getsize(path)
        write(tmp_path / "lake" / "a.parquet", [4, 5, 6], **plain)
        assert os.path.getsize(path) == size
        index.refresh()
        assert index.unindexed == [path]


def test_embedding_makes_nothing_stale(tmp_path: Path) -> None:
    truth = lake(tmp_path / "lake")
    settle()
    with make(tmp_path / "index") as index:
        index.append(tmp_path / "lake")
        for path in truth:
            parquet_bloom.embed(path, ["id"])
        index.refresh()
        assert index.unindexed == []
        assert_right(index, truth)
        settle()
        assert index.append().unchanged == 6
    with LakeIndex.open(tmp_path / "index") as index:
        assert index.unindexed == []
        assert index.state.live.restamped == {}  # none had to be read
        assert_right(index, truth)


def test_a_file_that_was_copied_or_touched_is_read_to_find_out(tmp_path: Path) -> None:
    truth = lake(tmp_path / "lake", files=2)
    settle()
    with make(tmp_path / "index") as index:
        index.append(tmp_path / "lake")
    for path in truth:
        shutil.copy2(path, path + ".new")
        os.replace(path + ".new", path)
    with LakeIndex.open(tmp_path / "index") as index:
        assert index.unindexed == []
        assert_right(index, truth)


def test_files_that_were_named_need_no_folder(tmp_path: Path) -> None:
    truth = lake(tmp_path / "lake")
    paths = list(truth)
    with make(tmp_path / "index") as index:
        index.append(paths[:3])
        assert index.unindexed == []
        assert_right(index, {path: truth[path] for path in paths[:3]})
        os.unlink(paths[0])
        index.refresh()
        assert_right(index, {path: truth[path] for path in paths[1:3]})
        assert index.stats().gone == 1


def test_without_listing_the_lake(tmp_path: Path) -> None:
    truth = lake(tmp_path / "lake")
    with make(tmp_path / "index") as index:
        index.append(tmp_path / "lake")
    shutil.rmtree(tmp_path / "lake")
    with LakeIndex.open(tmp_path / "index", live=False) as index:
        assert_right(index, truth)
        assert index.stats().unindexed is None


def test_values_at_hand(tmp_path: Path) -> None:
    with make(tmp_path / "index") as index:
        index.append_batches(
            (f"s3://b/{n}", {"id": pa.array([n, n + 1]), "name": pa.array([f"n{n}", f"n{n + 1}"])}) for n in range(100)
        )
        truth = {f"s3://b/{n}": {n, n + 1} for n in range(100)}
        assert_right(index, truth)
        report = index.append_batches([("s3://b/5", {"id": pa.array([500])})])
        assert report.replaced == 1
        assert files_of(index.lookup("id", [500])[0]) == {"s3://b/5"}
        assert files_of(index.lookup("id", [5])[0]) == {"s3://b/4"}
        # Nothing is known of its names.
        assert files_of(index.lookup("name", ["n-1"])[0]) == {"s3://b/5"}
        index.compact()
        assert files_of(index.lookup("id", [5])[0]) == {"s3://b/4"}
        assert files_of(index.lookup("name", ["n-1"])[0]) == {"s3://b/5"}


def test_columns_of_several_types_and_files_without_them(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    folder.mkdir()
    for name, array in {
        "int32": pa.array([1, 2], pa.int32()),
        "int64": pa.array([1, 3], pa.int64()),
        "text": pa.array(["1", "4"]),
        "double": pa.array([1.0, -0.0]),
    }.items():
        pq.write_table(pa.table({"key": array}), folder / f"{name}.parquet")
    pq.write_table(pa.table({"other": [1]}), folder / "none.parquet")
    pq.write_table(pa.table({"key": [True]}), folder / "flags.parquet")
    with LakeIndex.create(tmp_path / "index", "key") as index:
        report = index.append(folder)
        assert {os.path.basename(path) for path in report.uncovered["key"]} == {"none.parquet", "flags.parquet"}

        def find_matching(value: Any) -> set[str]:
            paths = (os.path.basename(path) for path in files_of(index.lookup("key", [value])[0]))
            return {name.removesuffix(".parquet") for name in paths} - {"none", "flags"}

        always = index.lookup("key", [99])[0]
        assert {"none", "flags"} <= {os.path.basename(c.path).removesuffix(".parquet") for c in always}
        # A number cannot be compared with a text column.
        assert find_matching(1) == {"int32", "int64", "double", "text"}
        assert find_matching(3) == {"int64", "text"}
        assert find_matching("4") >= {"text"}
        assert find_matching(0.0) == {"double", "text"}


def test_invalid_queries(tmp_path: Path) -> None:
    with make(tmp_path / "index") as index:
        with pytest.raises(UnknownColumnError, match="the index has no such column; it has: id, name"):
            index.lookup("other", [1])
        with pytest.raises(PredicateError, match="nulls are not indexed"):
            index.lookup("id", [1, None])
        with pytest.raises(PredicateError, match="values are a collection"):
            index.lookup("id", "abc")
        assert index.lookup("id", []) == []
        assert index.lookup("id", np.array([1, 2])) == [[], []]
        assert index.lookup("id", pa.array([1])) == [[]]
        with pytest.raises(StorageError, match="characters that no file's name can"):
            index.remove("\ud800")


def test_values_that_repeat_and_such_as_no_column_holds(tmp_path: Path) -> None:
    truth = lake(tmp_path / "lake", files=3)
    with make(tmp_path / "index") as index:
        index.append(tmp_path / "lake")
        everyone = sorted(truth)
        odd = [7, 7.0, -1, 7, 10**30, 7.5, Decimal(7), 2, np.int64(7), -1, 2]
        matches = [sorted(files_of(answer)) for answer in index.lookup("id", odd)]
        assert matches == [everyone, everyone, [], everyone, [], [], everyone, everyone[2:], everyone, [], everyone[2:]]
        # A truth value cannot be compared with a number.
        answers = index.lookup("id", [True, 7, True, "7"])
        assert [sorted(files_of(answer)) for answer in answers] == [everyone] * 4
        assert answers.doubts
        assert [sorted(files_of(answer)) for answer in index.lookup("name", [b"n7", "n7", "n-8", "n7"])] == [
            everyone,
            everyone,
            [],
            everyone,
        ]


@pytest.mark.ci
def test_files_that_were_written_just_now_are_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # so that it waits for two seconds
    truth = lake(tmp_path / "lake", files=3)
    with make(tmp_path / "index") as index:
        index.append(tmp_path / "lake")
        assert b"" not in index.state.segments[0].files.stamps.to_pylist()
        assert index.state.live.restamped == {}
        assert_right(index, truth)
        ahead = time.time() + 3600
        os.utime(write(tmp_path / "lake" / "ahead.parquet", [1]), (ahead, ahead))
        index.append()  # by another clock; nobody waits an hour
        assert index.unindexed == []
        assert index.state.segments[-1].files.stamps.to_pylist() == [b""]


def test_an_append_without_new_files_is_not_a_change(tmp_path: Path) -> None:
    lake(tmp_path / "lake", files=2)
    settle()
    with make(tmp_path / "index") as index:
        index.append(tmp_path / "lake")
        version = index.snapshot().version
        names = sorted(os.listdir(tmp_path / "index"))
        index.append()
        index.append(tmp_path / "lake")
        assert (index.snapshot().version, sorted(os.listdir(tmp_path / "index"))) == (version, names)


def test_bad_settings(tmp_path: Path) -> None:
    for options, problem in [
        ({"columns": []}, "columns are one or more"),
        ({"columns": ["a", "a"]}, "columns are one or more"),
        ({"layout": "tree"}, "layout is 'postings' or 'cuckoo'"),
        ({"granularity": "page"}, "granularity is"),
        ({"fingerprint_bits": 8}, "of the layout 'cuckoo'"),
        ({"remainder_bits": 99}, "remainder_bits lie between"),
        ({"layout": "cuckoo", "fingerprint_bits": 10}, "fingerprint_bits are"),
    ]:
        with pytest.raises(ParquetBloomError, match=problem):
            LakeIndex.create(tmp_path / "index", **({"columns": ["id"]} | options))
    assert not (tmp_path / "index").exists()
    make(tmp_path / "index").close()
    with pytest.raises(StorageError, match="there is an index already"):
        make(tmp_path / "index")
    with pytest.raises(StorageError, match="there is no index"):
        LakeIndex.open(tmp_path)


def test_errors_change_nothing(tmp_path: Path) -> None:
    truth = lake(tmp_path / "lake")
    index = make(tmp_path / "index")
    index.append(list(truth)[:2])
    before = sorted(os.listdir(tmp_path / "index"))
    (tmp_path / "lake" / "broken.parquet").write_bytes(b"PAR1 this is none PAR1")
    with pytest.raises(ParquetBloomError, match=r"broken\.parquet"):
        index.append(tmp_path / "lake")
    assert sorted(name for name in os.listdir(tmp_path / "index") if name.startswith("manifest")) == [
        name for name in before if name.startswith("manifest")
    ]
    errors: list[ParquetBloomError] = []
    report = index.append(tmp_path / "lake", on_error=errors.append)
    assert len(errors) == len(report.failed) == 1
    assert index.unindexed == [str(tmp_path / "lake" / "broken.parquet")]
    os.unlink(tmp_path / "lake" / "broken.parquet")
    index.refresh()
    assert_right(index, truth)


def test_columns_that_no_file_has(tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"other": [1]}), other)
    with make(tmp_path / "index") as index:
        with pytest.raises(UnknownColumnError, match="no such column"):
            index.append(other)
        assert index.snapshot().version == 1
        index.append(write(tmp_path / "a.parquet", [1]))
        # Some file had them: columns come and go.
        assert set(index.append(other).uncovered) == {"id", "name"}
        assert files_of(index.lookup("id", [5])[0]) == {str(other)}


def test_tables_are_not_globbed(tmp_path: Path) -> None:
    write(tmp_path / "table" / "a.parquet", [1])
    (tmp_path / "table" / "_delta_log").mkdir()
    (tmp_path / "table" / "_delta_log" / "00000000000000000000.json").write_text("{}")
    with make(tmp_path / "index") as index:
        with pytest.raises(ManagedTableError):
            index.append([tmp_path / "table"])
        with pytest.raises(ParquetBloomError, match=r"table: (cannot read the Delta table|Delta tables are read by)"):
            index.append(tmp_path / "table")


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    lake(tmp_path / "lake")
    with make(tmp_path / "index") as index, LakeIndex.open(tmp_path / "index") as other:
        with index._folder.lock(), pytest.raises(IndexInUseError, match="another writer is at work"):
            other.append(tmp_path / "lake")
        other.append(tmp_path / "lake")


def test_a_manifest_takes_nobodys_place(tmp_path: Path) -> None:
    """Without working locks, as on some network file systems, that alone keeps what another writer has appended."""
    with make(tmp_path / "index") as index:
        folder, ours = index._folder, replace(index.state.manifest, number=index.state.manifest.number + 1)
    theirs = replace(ours, lake={"paths": ["/theirs"]})
    index_manifest.write(folder, theirs)
    with pytest.raises(IndexInUseError, match="another writer has changed the index meanwhile"):
        index_manifest.write(folder, ours)
    assert index_manifest.newest(folder).lake == theirs.lake


def test_a_part_that_covers_only_some_hashes_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "lake" / "a.parquet", [1, 2])
    with make(tmp_path / "index") as index:
        index.append(tmp_path / "lake")
        folder, complete = index._folder, index.state.manifest
    for first, last in [(1, 2**64 - 1), (0, 2**64 - 2)]:
        (segment,) = complete.segments
        parts = tuple(replace(p, slices=(replace(p.slices[0], first=first, last=last),)) for p in segment.parts)
        complete = complete.next(segments=(replace(segment, parts=parts),))
        index_manifest.write(folder, complete)
        with pytest.raises(BrokenIndexError, match="do not cover all hashes"):
            LakeIndex.open(tmp_path / "index")


def test_a_damaged_manifest_is_not_an_index(tmp_path: Path) -> None:
    make(tmp_path / "index").close()
    (name,) = [name for name in os.listdir(tmp_path / "index") if name.startswith("manifest-")]
    path = tmp_path / "index" / name
    data = path.read_bytes()
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x20
        path.write_bytes(damaged)
        with pytest.raises(BrokenIndexError):
            LakeIndex.open(tmp_path / "index")
    path.write_bytes(data[:10])
    with pytest.raises(BrokenIndexError):
        LakeIndex.open(tmp_path / "index")

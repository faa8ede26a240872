"""Manifests whose checksum fits and that say something else: refused in one line, or no row is lost by it."""

from __future__ import annotations

import copy
import os
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.index_files import change_file_tables, read_manifest, seal_manifest
from support.scale import scaled

from parquet_bloom import LakeIndex
from parquet_bloom.errors import BrokenIndexError, ParquetBloomError
from parquet_bloom.hashing.gram_weights import GramWeights, PairCounts
from parquet_bloom.lake.index_pruning import IndexPruner
from parquet_bloom.predicate import tree
from parquet_bloom.predicate.pruning_statistics import ColumnShape

FILES, ROWS, GROUP = 3, 48, 12
EDITS = scaled(120)  # of each index

KINDS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "files": (["id", "twice", "text"], {}),
    "row groups": (["id", "twice"], {"granularity": "row_group"}),
    "zones": (["id", "twice"], {"granularity": "zone", "zone_rows": 5}),
    "cuckoo": (["id", "text"], {"layout": "cuckoo"}),
    "cuckoo zones": (["id"], {"layout": "cuckoo", "granularity": "zone", "zone_rows": 7}),
    "expressions": (["lower(text)", "(id, twice)", "upper(text)"], {}),
    "grams": (["grams(text)", "grams(lower(text))"], {"granularity": "zone", "zone_rows": 5}),
}
VALID: dict[str, list[Any]] = {
    "format": [1, 2, 3, 4],
    "layout": ["postings", "cuckoo"],
    "granularity": ["file", "row_group", "zone"],
    "holds": [shape.value for shape in ColumnShape],
    "physical": ["INT32", "INT64", "DOUBLE", "BYTE_ARRAY", "INT96"],
    "zone_rows": [1, 4, 6, 8, GROUP],
    "prefix_bits": [1, 8, 12, 40],
    "num_buckets": [1, 2, 37, 1000],
    "fingerprint_bits": [8, 12, 24],
    "function": ["lower", "upper", "string", "tuple", "grams"],
    "column": ["id", "twice", "text", "lower(text)", "upper(text)", "grams(text)", "grams(lower(text))"],
    "case": ["", "lower", "upper"],
    "weights": [PairCounts().to_weights().text, GramWeights(bytes(range(256)) * 256).text],
}


def ids(number: int) -> list[int]:
    return [1000 * number + row if row % 4 else 7 for row in range(ROWS)]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    for number in range(FILES):
        rows = {
            "id": ids(number),
            "twice": [2 * one for one in ids(number)],
            "text": [f"V{one}" for one in ids(number)],
        }
        pq.write_table(pa.table(rows), folder / f"{number}.parquet", row_group_size=GROUP)
        os.utime(folder / f"{number}.parquet", (time.time() - 60, time.time() - 60))
    return folder


def make(path: Path, lake: Path, kind: str) -> Path:
    """Make an index of two segments, over a folder."""
    columns, options = KINDS[kind]
    with LakeIndex.create(path, columns, expected_values=500, **options) as index:
        index.append(lake / "0.parquet")
        index.append(lake)
    return path


def find_lost(index: LakeIndex, lake: Path) -> Any:
    """Return a row that the index does not name; None if it names all."""
    for column in index.columns:
        if column.startswith("grams"):
            if lost := find_lost_text(index, lake, "lower" if "lower" in column else ""):
                return lost
            continue
        for value in (7, 1003, 2011, 5, 2047):
            literal: Any = {"twice": 2 * value, "text": f"V{value}", "(id, twice)": (value, 2 * value)}.get(
                column, value
            )
            literal = {"lower(text)": f"v{value}", "upper(text)": f"V{value}"}.get(column, literal)
            named = {candidate.path: candidate for candidate in index.lookup(column, [literal])[0]}
            for number in range(FILES):
                for row in [row for row, one in enumerate(ids(number)) if one == value]:
                    found = named.get(str(lake / f"{number}.parquet"))
                    if found is None or not names_row(found, *divmod(row, GROUP)):
                        return column, literal, number, row, found
    return None


def find_lost_text(index: LakeIndex, lake: Path, function: str) -> Any:
    """Return a row that has a text, or its beginning, which the index of grams does not name."""
    for text in ("V1003", "V20", "V2047"):
        node = tree.Like("text", f"%{text.lower() if function else text}%", function)
        pruner = IndexPruner(index.state, node)
        if not pruner.useful:
            continue
        named = dict(pruner.live())
        for number in range(FILES):
            selection = named[str(lake / f"{number}.parquet")]
            for row in [row for row, one in enumerate(ids(number)) if text in f"V{one}"]:
                row_group, at = divmod(row, GROUP)
                is_read = selection.read and (selection.row_groups is None or row_group in selection.row_groups)
                ranges = selection.rows.get(row_group, [(0, GROUP)])
                if not is_read or not any(start <= at < stop for start, stop in ranges):
                    return function, text, number, row, selection
    return None


def names_row(candidate: Any, row_group: int, row: int) -> bool:
    if candidate.row_groups is None:
        return True
    if row_group not in candidate.row_groups:
        return False
    if candidate.rows is None:
        return True
    return any(start <= row < stop for start, stop in candidate.rows[candidate.row_groups.index(row_group)])


def list_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from list_paths(value[key], (*path, key))


def get(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def list_values(document: Any, path: tuple[Any, ...]) -> Iterator[Any]:
    """Values to put in place of another: of other types, huge and negative ones, and those that others have there."""
    value = get(document, path)
    yield from (None, True, False, 0, 1, -1, 2, 2**63, 10**400, 1.0, 2.0, float("nan"), "", "../x", [], {}, [value])
    if type(value) is int:
        yield from (value + 1, value - 1, 2 * value, -value, float(value), str(value), bool(value))
    elif isinstance(value, str):
        yield from (value + "x", value[:-1], value.upper())
    elif isinstance(value, list):
        yield from (value[1:], value[:-1], value[::-1], value + value)
    elif isinstance(value, dict):
        yield {**value, "colour": 1}
    yield from VALID.get(path[-1], ())
    for other in list_paths(document):
        if other[-1] == path[-1]:
            yield get(document, other)


def list_edits(document: Any) -> Iterator[tuple[Any, Any]]:
    """Each field removed and replaced, and each exchanged with those that are called like it."""
    paths = list(list_paths(document))
    for path in paths:
        changed = copy.deepcopy(document)
        del get(changed, path[:-1])[path[-1]]
        yield (path, "removed"), changed
        for value in list_values(document, path):
            changed = copy.deepcopy(document)
            get(changed, path[:-1])[path[-1]] = value
            yield (path, value), changed
        for other in paths:
            if path < other and path[-1] == other[-1] and len(path) == len(other):
                changed = copy.deepcopy(document)
                values = copy.deepcopy(get(document, path)), copy.deepcopy(get(document, other))
                get(changed, other[:-1])[other[-1]], get(changed, path[:-1])[path[-1]] = values
                yield (path, other), changed
    for path in paths:
        if path[-1] == "slices":  # the border of two slices elsewhere than in their files
            (whole,) = get(document, path)
            changed = copy.deepcopy(document)
            get(changed, path[:-1])["slices"] = [{**whole, "last": 2**62}, {**whole, "first": 2**62 + 1}]
            yield (path, "cut"), changed


@pytest.mark.ci
@pytest.mark.parametrize("kind", KINDS)
def test_an_edited_manifest_is_refused_or_loses_no_row(tmp_path: Path, lake: Path, kind: str) -> None:
    manifest, document = read_manifest(make(tmp_path / "index", lake, kind))
    edits = [(where, changed) for where, changed in list_edits(document) if repr(changed) != repr(document)]
    refused: list[str] = []
    chosen = edits if len(edits) <= EDITS else random.Random(kind).sample(edits, EDITS)
    for where, changed in chosen:
        seal_manifest(manifest, changed)
        try:
            with LakeIndex.open(tmp_path / "index") as index:
                lost = find_lost(index, lake)
        except ParquetBloomError as error:
            refused.append(str(error))
            continue
        assert lost is None, where
    assert len(refused) > len(chosen) // 2
    assert "\n" not in "".join(refused)


def edit(index: Path, path: tuple[Any, ...], value: Any) -> None:
    manifest, document = read_manifest(index)
    get(document, path[:-1])[path[-1]] = value
    seal_manifest(manifest, document)


@pytest.mark.parametrize(
    ("kind", "path", "value", "message"),
    [
        ("row groups", ("granularity",), "file", "units are files, and a file has several of them"),
        ("files", ("granularity",), "row_group", 'granularity is "row_group" in the manifest, "file" in the segment'),
        ("zones", ("zone_rows",), 3, "the zones of its files are not those of their rows"),
        ("zones", ("zone_rows",), 4, "zone_rows is 4 in the manifest, 5 in the segment"),
        ("files", ("format",), True, "True is not an integer"),
        ("files", ("format",), 5, "format 5; this version knows 1, 2, 3 and 4"),
        ("files", ("number",), True, "True is not an integer"),
        ("expressions", ("format",), 1, "'expressions' is not known"),
        ("zones", ("colour",), "red", "'colour' is not known"),
        ("files", ("segments",), [], "the manifest says that it has 3 files, and lists 0"),
        ("files", ("segments", 0, "colour"), "red", "'colour' is not known"),
        ("files", ("settings", "prefix_bits"), 9, "settings is"),
    ],
)
def test_what_an_edited_manifest_is_refused_for(
    tmp_path: Path, lake: Path, kind: str, path: tuple[Any, ...], value: Any, message: str
) -> None:
    edit(make(tmp_path / "index", lake, kind), path, value)
    with pytest.raises(BrokenIndexError) as caught:
        LakeIndex.open(tmp_path / "index")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_were_listed_in_the_folders_of_the_manifest(tmp_path: Path, lake: Path) -> None:
    (tmp_path / "other").mkdir()
    edit(make(tmp_path / "index", lake, "files"), ("lake", "paths"), [str(tmp_path / "other")])
    with pytest.raises(BrokenIndexError, match="does not have the folder in which"):
        LakeIndex.open(tmp_path / "index")
    with LakeIndex.open(tmp_path / "index", lake=lake) as index:  # as the caller says
        assert find_lost(index, lake) is None


def test_files_that_were_given_by_name_may_go(tmp_path: Path, lake: Path) -> None:
    """They were never listed in a folder of the manifest, so that theirs is none that it lacks."""
    by_name = tmp_path / "elsewhere" / "x.parquet"
    by_name.parent.mkdir()
    shutil.copy(lake / "0.parquet", by_name)
    make(tmp_path / "index", lake, "files")
    with LakeIndex.open(tmp_path / "index") as index:
        assert index.append([by_name]).added == 1
    by_name.unlink()
    with LakeIndex.open(tmp_path / "index") as index:
        assert find_lost(index, lake) is None
        index.refresh()
        index.append()
        index.compact()
    shutil.rmtree(by_name.parent)
    with LakeIndex.open(tmp_path / "index") as index:
        assert find_lost(index, lake) is None


def test_patterns_and_folders_with_odd_names_are_what_files_were_listed_in(tmp_path: Path, lake: Path) -> None:
    for number, name in enumerate(("a[*]b", "c?d")):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(lake / f"{number}.parquet", folder / "x.parquet")
        shutil.copy(lake / "2.parquet", folder / "y.parquet")
        with LakeIndex.create(tmp_path / f"index{number}", "id") as index:
            index.append(folder if number else f"{tmp_path}/a*b/*.parquet")
        os.unlink(folder / "x.parquet")
        with LakeIndex.open(tmp_path / f"index{number}") as index:
            assert index.stats().gone == 1


@pytest.mark.parametrize(
    ("layout", "field", "value"),
    [
        ("postings", "num_entries", 1),
        ("postings", "num_bytes", 1),
        ("cuckoo", "num_entries", 1),
    ],
)
def test_a_part_is_what_the_manifest_says_of_it(
    tmp_path: Path, lake: Path, layout: str, field: str, value: int
) -> None:
    kind = {"postings": "files", "cuckoo": "cuckoo"}[layout]
    edit(make(tmp_path / "index", lake, kind), ("segments", 0, "parts", 0, "slices", 0, field), value)
    with LakeIndex.open(tmp_path / "index") as index:
        answers = index.lookup("id", [424242])
        assert len(answers[0]) >= 1  # what the part says is not believed
        assert answers.doubts
        assert any("not" in problem for problem in index.check().problems)
        with pytest.raises(BrokenIndexError):
            index.compact()


def test_an_index_of_an_earlier_version_is_read(tmp_path: Path, lake: Path) -> None:
    """Tables of files had no header of their segment, and manifests no number of files."""
    index = make(tmp_path / "index", lake, "row groups")

    def remove_header(table: pa.Table) -> pa.Table:
        metadata = dict(table.schema.metadata)
        del metadata[b"segment"]
        return table.replace_schema_metadata(metadata)

    change_file_tables(index, remove_header)
    manifest, document = read_manifest(index)
    del document["num_files"]
    seal_manifest(manifest, document)
    with LakeIndex.open(index) as opened:
        assert find_lost(opened, lake) is None
        assert opened.check(FILES).problems == []
        opened.compact()
        assert find_lost(opened, lake) is None
    edit(index, ("granularity",), "file")
    with pytest.raises(BrokenIndexError):
        LakeIndex.open(index)

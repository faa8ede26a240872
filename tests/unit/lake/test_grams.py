"""Indexes of grams: what they are learnt from, what is refused, and which version of the format they have."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.index_files import read_manifest, seal_manifest

import parquet_bloom
from parquet_bloom.errors import BrokenIndexError, ParquetBloomError, PredicateError, UnknownColumnError
from parquet_bloom.hashing.gram_weights import GramWeights, PairCounts
from parquet_bloom.lake.lake_index import LakeIndex

pytestmark = pytest.mark.usefixtures("settled_tokens")
NAMES = ["Zoë", "error", "timeout", "GET /index.html", "naïve", "x" * 30]


def write(folder: Path, name: str, texts: list[str | None] | pa.Array, **options: Any) -> Path:
    """Write a file, without a dictionary, which would decide instead of the index."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.parquet"
    column = texts if isinstance(texts, pa.Array) else pa.array(texts, pa.string())
    pq.write_table(pa.table({"t": column, "row": range(len(column))}), path, **{"use_dictionary": False, **options})
    os.utime(path, (time.time() - 60, time.time() - 60))
    return path


def names_of(lake: Path | list[str], where: str, index: Any) -> list[str]:
    return [Path(path).stem for path in parquet_bloom.prune(lake, where, index=index).selected]


def stored_weights(index: Path, key: str = "grams(t)") -> GramWeights | None:
    text = read_manifest(index)[1]["expressions"][key]["weights"]
    return None if text is None else GramWeights.from_text(text)


def test_texts_are_found_by_their_pieces(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for number, name in enumerate(NAMES):
        write(lake, str(number), [f"{name} of {number}{one}" for one in range(50)] + [None, "", "ab"])
    with LakeIndex.create(tmp_path / "i", ["grams(t)", "grams( LOWER(t) )"], lake=lake) as index:
        assert index.columns == ("grams(t)", "grams(lower(t))")
        report = index.append()
        assert not report.uncovered
        assert index.check(9).problems == []
        for where, expected in {
            "t LIKE '%timeout%'": ["2"],
            "contains(t, 'TIMEOUT')": [],
            "lower(t) LIKE '%zoë%'": ["0"],
            "lower(t) LIKE '%x.y%'": [],
            "regexp_matches(t, 'GET|naïve')": ["3", "4"],
            "starts_with(t, 'error of 1') OR ends_with(t, 'timeout of 249')": ["1", "2"],
            "NOT (t NOT LIKE '%timeout%')": ["2"],
            "t LIKE '%timeout%' AND t LIKE '%error%'": [],
        }.items():
            assert names_of(lake, where, index) == expected, where
        for where in ("t LIKE '%of%'", "t NOT LIKE '%timeout%'", "contains(t, 'f ')", "regexp_matches(t, '.. 4')"):
            assert len(names_of(lake, where, index)) > 4, where  # shorter than a gram, or not to be found by one
        assert parquet_bloom.read_table(lake, "t LIKE 'er%'", index=index).num_rows == 50


def test_lookups_of_grams_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "lake", "a", ["some text"])
    with LakeIndex.create(tmp_path / "i", "grams(t)", lake=tmp_path / "lake") as index:
        index.append()
        with pytest.raises(PredicateError, match="by a predicate"):
            index.lookup("grams(t)", ["some"])
        with pytest.raises(ParquetBloomError, match="grams"):
            index.append_batches([("b", {"grams(t)": pa.array(["x"])})])
    with pytest.raises(ParquetBloomError, match="layout 'postings'"):
        LakeIndex.create(tmp_path / "c", "grams(t)", layout="cuckoo")
    for name in ("grams(upper(t))", "grams(CAST(t AS STRING))", "grams(a, b)"):  # of columns that are called so
        with (
            LakeIndex.create(tmp_path / name, [name], lake=tmp_path / "lake") as index,
            pytest.raises(UnknownColumnError),
        ):
            index.append()


def test_a_column_that_is_named_like_grams(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    for number, (one, other) in enumerate([("some text", "other"), ("other", "some text")]):
        pq.write_table(pa.table({"t": [one], "grams(t)": [other]}), lake / f"{number}.parquet")
    for column in ("grams(t)", '"grams(t)"', 'grams("grams(t)")'):
        with LakeIndex.create(tmp_path / str(len(column)), column, lake=lake) as index:
            index.append()
            for name, stems in {"t": ["0"], '"grams(t)"': ["1"]}.items():
                rows = parquet_bloom.read_table(lake, f"{name} LIKE '%some%'", index=index)
                assert rows.num_rows == len(stems)
    rows = parquet_bloom.read_table(lake, "t LIKE '%some%' AND \"grams(t)\" = 'other'", index=tmp_path / "8")
    assert rows.num_rows == 1


def test_other_types_and_lists_are_not_covered(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    columns: dict[str, pa.Array] = {
        "0": pa.array(["some text"]),
        "1": pa.array([b"some text"]),
        "2": pa.array([["some text"]]),
        "3": pa.array([5]),
        "4": pa.array([b"0123456789abcdef"], pa.uuid()),
        "5": pa.array(["some text"]).dictionary_encode(),
        "6": pa.array(["some text"], pa.string_view()),
    }
    for name, column in columns.items():
        write(lake, name, column)
    (lake / "7.parquet").write_bytes((lake / "0.parquet").read_bytes())
    pq.write_table(pa.table({"u": [1]}), lake / "8.parquet")
    with LakeIndex.create(tmp_path / "i", "grams(t)", lake=lake) as index:
        report = index.append()
        assert {Path(path).stem for path in report.uncovered["grams(t)"]} == {"1", "2", "3", "4", "8"}
        paths = [str(lake / f"{one}.parquet") for one in "0567"]
        assert names_of(paths, "t LIKE '%text%'", index) == ["0", "5", "6", "7"]
        assert names_of(paths, "t LIKE '%next%'", index) == []


@pytest.mark.ci
@pytest.mark.parametrize("granularity", ["file", "row_group", "zone"])
def test_texts_that_are_not_valid(tmp_path: Path, granularity: str) -> None:
    """What another writer put into a column of texts: grams are those of the bytes, of `lower` nothing is known."""
    values = [b"some \xff text", b"\xff\xfe\xfd", b"some\xc3", b"error \x80 42", b"\xed\xa0\x80 half", b"fine text"]
    lake = tmp_path / "lake"
    for number, value in enumerate(values):
        write(lake, str(number), pa.array([value] * 5, pa.binary()).view(pa.string()))
    keys = ["grams(t)", "grams(lower(t))"]
    with LakeIndex.create(tmp_path / "i", keys, lake=lake, granularity=granularity) as index:
        index.append()
        assert index.check(9).problems == []
        for piece in (b"text", b"some", b"error", b" 42", b" half"):
            text = piece.decode()
            expected = [str(number) for number, value in enumerate(values) if piece in value]
            assert names_of(lake, f"t LIKE '%{text}%'", index) == expected
            rows = parquet_bloom.read_table(lake, f"t LIKE '%{text}%'", ["row"], index=index)
            assert rows.num_rows == 5 * len(expected)
            assert {*expected, "0", "1", "2", "3", "4"} <= {*names_of(lake, f"lower(t) LIKE '%{text}%'", index)}


def test_weights_are_learnt_once(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    LakeIndex.create(tmp_path / "i", ["grams(t)"], lake=lake).close()
    assert stored_weights(tmp_path / "i") is None
    write(lake, "0", ["a text of the first file"] * 20)
    with LakeIndex.open(tmp_path / "i") as index:
        index.append()
    first = stored_weights(tmp_path / "i")
    counts = PairCounts()
    counts.add(pa.array(["a text of the first file"] * 20).cast(pa.binary()))
    assert first == counts.to_weights()
    write(lake, "1", ["quite different words in it"] * 900)
    with LakeIndex.open(tmp_path / "i") as index:
        index.append()
        index.compact(keep_seconds=0)
        assert stored_weights(tmp_path / "i") == first
        assert names_of(lake, "t LIKE '%different%'", index) == ["1"]
        assert index.check(2).problems == []


@pytest.mark.parametrize("columns", [["grams(t)"], ["grams(t)", "grams(lower(t))", "row"]])
def test_weights_are_learnt_from_files_that_can_be_read(tmp_path: Path, columns: list[str]) -> None:
    lake = tmp_path / "lake"
    write(lake, "0", ["x"])
    (lake / "0.parquet").write_bytes(b"PAR1 but nothing else PAR1")
    pq.write_table(pa.table({"row": [1]}), lake / "1.parquet")
    write(lake, "2", [None] * 5)
    write(lake, "3", [])
    write(lake, "4", ["", "a", "ab"])
    write(lake, "5", pa.array([7, 8]))
    for number in range(6, 30):
        write(lake, str(number), [f"text number {number}"] * 3)
    with LakeIndex.create(tmp_path / "i", columns, lake=lake) as index:
        failed: list[ParquetBloomError] = []
        index.append(on_error=failed.append)
        assert [Path(str(error.path)).name for error in failed] == ["0.parquet"]
        assert stored_weights(tmp_path / "i") != PairCounts().to_weights()
        paths = [str(lake / f"{number}.parquet") for number in range(2, 30) if number != 5]
        assert names_of(paths, "t LIKE '%number 17%'", index) == ["17"]


@pytest.mark.parametrize("key", ["grams(t)", "grams(lower(t))"])
def test_weights_are_learnt_from_the_first_text_that_has_a_gram(tmp_path: Path, key: str) -> None:
    """As long as no gram depends on them they may change, by the append that brings one."""
    lake = tmp_path / "lake"
    write(lake, "0", [None] * 5)
    write(lake, "1", [])
    with LakeIndex.create(tmp_path / "i", ["row", key], lake=lake, granularity="row_group") as index:
        assert index.append().entries == 5
        assert names_of(lake, "t LIKE '%abc%'", index) == []
        assert stored_weights(tmp_path / "i", key) == PairCounts().to_weights()
        write(lake, "2", ["", "ab"])
        index.append()
        assert stored_weights(tmp_path / "i", key) != PairCounts().to_weights()
        before = LakeIndex.open(tmp_path / "i")
        write(lake, "3", ["a text that has xabcx"] * 9)
        index.append()
        learnt = stored_weights(tmp_path / "i", key)
        counts = PairCounts()
        counts.add(pa.array(["a text that has xabcx"] * 9).cast(pa.binary()))
        assert learnt == counts.to_weights()
        write(lake, "4", ["quite another text: abcabc"] * 900)
        index.append()
        os.unlink(lake / "3.parquet")  # its grams are there until the index is compacted
        write(lake, "5", ["more of them"])
        index.append()
        assert stored_weights(tmp_path / "i", key) == learnt
        for opened in (index, before):
            found = [name for name in names_of(lake, "t LIKE '%abc%'", opened) if opened is index or name in "0124"]
            assert found == ["4"]
        assert names_of(lake, "t LIKE '%abd%'", index) == []
        before.close()


def test_segments_without_a_gram_are_merged_by_the_append_that_learns_weights(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    with LakeIndex.create(tmp_path / "i", "grams(t)", lake=lake) as index:
        merged = number = 0
        while not merged:
            write(lake, str(number), ["abc" if number == 7 else None])
            number += 1
            merged = index.append().merged
        assert number == merged == 8
    with LakeIndex.open(tmp_path / "i") as index:
        assert index.check(9).problems == []
        assert names_of(lake, "t LIKE '%abc%'", index) == ["7"]


def test_weights_are_those_of_the_segments(tmp_path: Path) -> None:
    write(tmp_path / "lake", "0", ["some text"])
    with LakeIndex.create(tmp_path / "i", "grams(t)", lake=tmp_path / "lake") as index:
        index.append()
    manifest, document = read_manifest(tmp_path / "i")
    document["expressions"]["grams(t)"]["weights"] = PairCounts().to_weights().text
    seal_manifest(manifest, document)
    with pytest.raises(BrokenIndexError, match="contradicts the segment: expression of part 0"):
        LakeIndex.open(tmp_path / "i")
    document["segments"][0]["parts"][0]["slices"][0]["num_entries"] = 0  # which the part itself knows better
    seal_manifest(manifest, document)
    with LakeIndex.open(tmp_path / "i") as index:
        plan = parquet_bloom.prune(tmp_path / "lake", "t LIKE '%some text%'", index=index)
        assert (plan.selected_files, len(plan.index_doubts)) == (1, 1)


def test_columns_that_are_missing_have_no_weights(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    write(lake, "0", ["some text"])
    with LakeIndex.create(tmp_path / "j", "grams(missing)", lake=lake) as index:
        with pytest.raises(UnknownColumnError, match="missing"):
            index.append()
        assert stored_weights(tmp_path / "j", "grams(missing)") is None


@pytest.mark.ci
def test_long_texts_and_every_encoding(tmp_path: Path) -> None:
    """One text is longer than what is learnt from, and than what an extractor returns at once."""
    lake, rng = tmp_path / "lake", random.Random(1)
    long = "".join(rng.choices("abcdefghij \n0123456789é漢", k=3_000_000))
    write(lake, "long", [long[:1_500_000], None, long, "short"])
    encodings = {"plain": None, "delta": "DELTA_BYTE_ARRAY", "length": "DELTA_LENGTH_BYTE_ARRAY"}
    for name, encoding in encodings.items():
        options = {"column_encoding": {"t": encoding}} if encoding else {}
        texts = [f"{name} {number:05} end" for number in range(3000)]
        write(lake, name, texts, data_page_size=500, **options)
    write(
        lake,
        "gives_up",
        [f"gives_up {number:05} end" for number in range(3000)],
        use_dictionary=True,
        dictionary_pagesize_limit=1000,
    )
    with LakeIndex.create(tmp_path / "i", ["grams(t)"], lake=lake, granularity="zone", zone_rows=100) as index:
        index.append(memory_limit=1 << 20)
        for first in rng.sample(range(len(long) - 20), 30):
            piece = long[first : first + 20]
            assert "long" in names_of(lake, f"contains(t, '{piece}')", index)
        for name in [*encodings, "gives_up"]:
            plan = parquet_bloom.prune(lake, f"t LIKE '%{name} 01234 %'", index=index)
            assert [Path(path).stem for path in plan.selected] == [name]
            (rows,) = [group.rows for file in plan.files for group in file.row_groups if group.read]
            assert rows is None or any(start <= 1234 < stop for start, stop in rows)
        assert names_of(lake, "t LIKE '% 9999 end%'", index) == []


@pytest.mark.ci
def test_frequent_grams_are_in_all_units(tmp_path: Path) -> None:
    """A gram that is in more than an eighth of the units, and in more than 512, is not listed: it is in all of them."""
    lake = tmp_path / "lake"
    texts = [f"common {'rare' if number == 4321 else 'other' if number % 9 else 'seldom'}" for number in range(7000)]
    write(lake, "a", texts)
    write(lake, "b", ["nothing of it"] * 10)
    with LakeIndex.create(tmp_path / "i", "grams(t)", lake=lake, granularity="zone", zone_rows=1) as index:
        reports = [index.append([lake / f"{name}.parquet"]) for name in "ab"]
        assert sum(report.entries for report in reports) == index.stats().entries["grams(t)"]
        for _ in range(2):
            for piece in ("common", "other", "seldom", "rare"):
                found = parquet_bloom.read_table(lake, f"t LIKE '%{piece}%'", ["row"], index=index)["row"].to_pylist()
                assert found == [number for number, text in enumerate(texts) if piece in text]
            (plan,) = parquet_bloom.prune([str(lake / "a.parquet")], "t LIKE '%rare%'", index=index).files
            assert list(plan.row_groups[0].rows) == [(4321, 4322)]
            assert index.check(2).problems == []
            index.compact(keep_seconds=0)
        before = index.stats().entries["grams(t)"]
        os.unlink(lake / "a.parquet")
        index.refresh()
        assert index.compact(keep_seconds=0).dropped == 1
        assert index.check(2).problems == []
        assert 0 < index.stats().entries["grams(t)"] < before / 100
        assert parquet_bloom.read_table(lake, "t LIKE '%nothing%'", index=index).num_rows == 10


def test_damage_rules_nothing_out(tmp_path: Path) -> None:
    """Where one of the grams that are asked for cannot be looked up, the others alone decide."""
    lake, rng = tmp_path / "lake", random.Random(3)
    words = [[f"{rng.randrange(2**40):010x}" for _ in range(200)] for _ in range(8)]
    for number, texts in enumerate(words):
        write(lake, str(number), list(texts))
    with LakeIndex.create(tmp_path / "i", "grams(t)", lake=lake) as index:
        index.append()
    (part,) = (tmp_path / "i").glob("*.postings")
    whole, doubts, decided = part.read_bytes(), 0, 0
    for at in rng.sample(range(len(whole) // 2), 25):  # where the blocks are
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.randrange(8)
        part.write_bytes(damaged)
        with LakeIndex.open(tmp_path / "i") as index:
            for number in rng.sample(range(8), 4):
                plan = parquet_bloom.prune(lake, f"t LIKE '%{rng.choice(words[number])}%'", index=index)
                selected = {Path(path).stem for path in plan.selected}
                assert str(number) in selected
                doubts += bool(plan.index_doubts)
                decided += bool(plan.index_doubts) and len(selected) < 8
            assert index.check().problems
    assert doubts >= decided > 0


def test_formats_of_manifests(tmp_path: Path) -> None:
    """An older version, which knows formats up to 3, refuses an index of grams and takes all others."""
    (tmp_path / "lake").mkdir()
    for columns, options, expected in [
        (["t"], {}, 1),
        (["lower(t)"], {}, 2),
        (["t"], {"granularity": "zone"}, 3),
        (["lower(t)"], {"granularity": "zone"}, 3),
        (["grams(t)"], {}, 4),
        (["t", "grams(t)", "lower(t)", "(t, row)"], {"granularity": "zone"}, 4),
        (["grams(lower(t))"], {"granularity": "row_group"}, 4),
    ]:
        index = tmp_path / f"{columns}{options}"
        LakeIndex.create(index, columns, lake=tmp_path / "lake", **options).close()
        fields = read_manifest(index)[1]
        assert fields["format"] == expected
        assert ("expressions" in fields) == (columns != ["t"])
        assert ("zone_rows" in fields) == ("zone" in options.values())
        with LakeIndex.open(index) as opened:
            assert list(opened.columns) == columns


def test_a_manifest_of_grams_that_is_not_one(tmp_path: Path) -> None:
    write(tmp_path / "lake", "a", ["some text"])
    with LakeIndex.create(tmp_path / "i", ["grams(t)", "row"], lake=tmp_path / "lake") as index:
        index.append()
    path, fields = read_manifest(tmp_path / "i")
    stored = fields["expressions"]["grams(t)"]
    assert stored["rule"] == "sparse-3-8-1"
    assert stored["case"] == ""
    other = PairCounts()
    other.add(pa.array([b"other texts"]))
    changes: list[tuple[dict[str, Any], str]] = [
        ({"format": 3, "zone_rows": 5, "granularity": "zone"}, "says something else of grams"),
        ({"format": 2}, "says something else of grams"),
        ({"format": 1}, "'expressions' is not known"),
        ({"format": 5}, "format 5; this version knows 1, 2, 3 and 4"),
        ({"expressions": {}}, "says something else of grams"),
        ({"expressions": {"grams(t)": {**stored, "rule": "sparse-3-8-2"}}}, "does not know the rule 'sparse-3-8-2'"),
        ({"expressions": {"grams(t)": {**stored, "case": "upper"}}}, "grams of 'upper'"),
        ({"expressions": {"grams(t)": {**stored, "case": "lower"}}}, "rule"),
        ({"expressions": {"grams(t)": {**stored, "columns": ["t", "row"]}}}, "has 2 columns"),
        ({"expressions": {"grams(t)": {**stored, "function": "lower"}}}, "other fields than its function"),
        ({"expressions": {"grams(t)": {key: stored[key] for key in stored if key != "case"}}}, "other fields"),
        ({"expressions": {"grams(t)": {**stored, "colour": "red"}}}, "'colour' is not known"),
        ({"expressions": {"grams(t)": {**stored, "weights": stored["weights"][4:]}}}, "weights of grams are damaged"),
        ({"expressions": {"grams(t)": {**stored, "weights": 5}}}, "cannot be understood"),
        ({"expressions": {"grams(t)": {**stored, "weights": None}}}, "contradicts the segment"),
        ({"expressions": {"grams(t)": {**stored, "weights": other.to_weights().text}}}, "contradicts the segment"),
        ({"layout": "cuckoo", "settings": {"num_buckets": 5, "fingerprint_bits": 12}}, "."),
    ]
    for change, message in changes:
        seal_manifest(path, {**fields, **change})
        with pytest.raises(BrokenIndexError, match=message):
            LakeIndex.open(tmp_path / "i")
    seal_manifest(path, fields)
    LakeIndex.open(tmp_path / "i").close()


def test_changed_files_are_known_by_their_bytes(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    for name in ("a", "b"):
        write(lake, name, [f"{name} text"] * 9)
    with LakeIndex.create(tmp_path / "i", ["grams(t)", "grams(lower(t))"], lake=lake) as index:
        index.append()
        (lake / "a.parquet").touch()
        index.refresh()
        assert index.unindexed == []
        parquet_bloom.embed(str(lake / "a.parquet"), ["t"])
        index.refresh()
        assert index.unindexed == []
        assert names_of(lake, "t LIKE '%b text%'", index) == ["b"]
        write(lake, "a", ["b text"] * 9)
        index.refresh()
        assert [Path(path).stem for path in index.unindexed] == ["a"]
        assert names_of(lake, "t LIKE '%b text%'", index) == ["a", "b"]

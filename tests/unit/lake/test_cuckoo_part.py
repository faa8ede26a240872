"""Parts of the layout "cuckoo": what was put in is found, damage is noticed, merges lose nothing."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parquet_bloom.errors import BrokenIndexError, StorageError
from parquet_bloom.lake.cuckoo_reader import CuckooReader
from parquet_bloom.lake.cuckoo_writer import CuckooWriter, merge
from parquet_bloom.lake.index_part import PartInfo, PartMatches, Sections, SectionWriter

BITS = (8, 12, 16, 24)
MASK = 2**64 - 1


def random_units(sizes: list[int], seed: int = 0) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 2**64, size, dtype=np.uint64).tolist() for size in sizes]


def write(path: Path, units: list[list[int]], num_buckets: int = 38, bits: int = 16, limit: int = 1 << 24) -> PartInfo:
    writer = CuckooWriter(
        str(path), num_buckets=num_buckets, fingerprint_bits=bits, memory_limit=limit, scratch=str(path.parent)
    )
    for number, hashes in enumerate(units):
        for start in range(0, len(hashes), 500):
            writer.add(number, np.array(hashes[start : start + 500], np.uint64))
    info = writer.finish(len(units))
    writer.close()
    return info


def by_query(result: PartMatches, count: int) -> list[list[int]]:
    answer: list[list[int]] = [[] for _ in range(count)]
    for query, unit in zip(result.queries.tolist(), result.units.tolist(), strict=True):
        answer[query].append(unit)
    return answer


def assert_finds(reader: CuckooReader, units: list[list[int]]) -> None:
    """Each value of each unit is found in it, by one call for all values; the answers are as `PartMatches` promises."""
    values = sorted({h for hashes in units for h in hashes})
    matches = reader.find(np.array(values, np.uint64))
    assert matches.unknown == {}
    assert (np.diff(matches.queries) >= 0).all()
    answers = by_query(matches, len(values))
    index_of = {h: i for i, h in enumerate(values)}
    assert all(answer == sorted(set(answer)) for answer in answers)
    sets = [set(answer) for answer in answers]
    for unit, hashes in enumerate(units):
        assert all(unit in sets[index_of[h]] for h in hashes)
    for i in range(0, len(values), max(1, len(values) // 20)):  # and one by one
        alone = reader.find(np.array(values[i : i + 1], np.uint64))
        assert alone.units.tolist() == answers[i]


@pytest.mark.ci
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("limit", [100, 20_000, 1 << 24])
@pytest.mark.parametrize(
    "sizes", [[], [0], [0, 0], [1], [1, 0, 3000, 0, 2, 0], [100] * 150, [0] * 30 + [5] * 30 + [700]]
)
def test_inserted_values_are_found(tmp_path: Path, sizes: list[int], bits: int, limit: int) -> None:
    units = random_units(sizes, bits)
    for num_buckets in (1, 38, 300):
        info = write(tmp_path / "part", units, num_buckets, bits, limit)
        assert info.name == "part"
        assert info.num_bytes == (tmp_path / "part").stat().st_size
        assert info.num_entries <= sum(sizes)
        assert info.num_entries >= 0.97 * sum(sizes) or bits < 16
        reader = CuckooReader(str(tmp_path / "part"), expected_bytes=info.num_bytes)
        assert list(reader.check()) == []
        assert reader.num_units == len(sizes)
        assert_finds(reader, units)
        nothing = reader.find(np.empty(0, np.uint64))
        assert (len(nothing.queries), nothing.unknown) == (0, {})
        reader.close()


@pytest.mark.ci
def test_where_it_spills_makes_no_difference(tmp_path: Path) -> None:
    units = random_units([50, 0, 900, 3] * 40)
    for bits in BITS:
        write(tmp_path / "a", units, 60, bits, 1 << 24)
        for limit in (0, 3000, 50_000):
            write(tmp_path / "b", units, 60, bits, limit)
            assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_values_given_twice(tmp_path: Path) -> None:
    writer = CuckooWriter(str(tmp_path / "part"), num_buckets=50)
    hashes = np.array(random_units([120])[0], np.uint64)
    for _ in range(30):  # row groups that hold the same values
        writer.add(0, hashes)
    writer.add(2, hashes)
    assert writer.finish(5).num_entries == 240
    writer.close()
    reader = CuckooReader(str(tmp_path / "part"))
    assert reader.slots.tolist()[0] == reader.slots.tolist()[2] == 3
    assert by_query(reader.find(hashes), 120) == [[0, 2]] * 120
    reader.close()


def test_misuse_of_a_writer(tmp_path: Path) -> None:
    writer = CuckooWriter(str(tmp_path / "part"), num_buckets=50)
    writer.add(3, np.array([1], np.uint64))
    with pytest.raises(ValueError):
        writer.add(2, np.array([1], np.uint64))
    with pytest.raises(ValueError):
        writer.finish(3)
    writer.close()
    writer.close()
    assert list(tmp_path.iterdir()) == []


@given(
    st.lists(st.lists(st.integers(0, MASK) | st.sampled_from([0, 1, MASK]), max_size=40), max_size=8),
    st.integers(1, 30),
    st.sampled_from(BITS),
)
def test_any_units(
    tmp_path_factory: pytest.TempPathFactory, units: list[list[int]], num_buckets: int, bits: int
) -> None:
    path = tmp_path_factory.mktemp("any") / "part"
    write(path, units, num_buckets, bits, 500)
    reader = CuckooReader(str(path))
    assert_finds(reader, units)
    assert list(reader.check()) == []
    reader.close()


@pytest.mark.ci
@pytest.mark.parametrize("long_row", [64, 1 << 20])
def test_long_rows_in_pieces(tmp_path: Path, long_row: int) -> None:
    """As rows of megabytes are read: piece by piece, and by two threads."""
    for bits in BITS:
        units = random_units([100] * 77, bits)
        write(tmp_path / "part", units, 38, bits)
        reader = CuckooReader(str(tmp_path / "part"), chunk_bytes=64, long_row_bytes=long_row)
        assert_finds(reader, units)
        reader.close()
        data = bytearray((tmp_path / "part").read_bytes())
        data[70] ^= 1
        (tmp_path / "part").write_bytes(data)
        reader = CuckooReader(str(tmp_path / "part"), chunk_bytes=64, long_row_bytes=long_row)
        assert_is_noticed(reader, units, 0)
        reader.close()


def assert_is_noticed(reader: CuckooReader, units: list[list[int]], row: int) -> None:
    """With one row damaged, nothing is said of values that need it, and of others all that has to be."""
    values = [h for hashes in units for h in hashes]
    array = np.array(values, np.uint64)
    _, first, second = reader.layout.locate(array)
    needs = (first == row) | (second == row)
    matches = reader.find(array)
    assert sorted(matches.unknown) == np.flatnonzero(needs).tolist()
    assert all(reader.path in reason for reason in matches.unknown.values())
    assert not set(matches.queries.tolist()) & set(matches.unknown)
    answers = by_query(matches, len(values))
    position = 0
    for unit, hashes in enumerate(units):
        for _ in hashes:
            assert position in matches.unknown or unit in answers[position]
            position += 1
    assert len(list(reader.check())) == 1


@pytest.mark.ci
@pytest.mark.parametrize("bits", BITS)
def test_damage_of_any_byte(tmp_path: Path, bits: int) -> None:
    units = random_units([5, 0, 9, 1])
    info = write(tmp_path / "part", units, 6, bits)
    content = (tmp_path / "part").read_bytes()
    sections = Sections(str(tmp_path / "part"), "cuckoo")
    rows = sections.section("rows")
    sections.close()
    for position in range(len(content)):
        data = bytearray(content)
        data[position] ^= 0x41
        (tmp_path / "part").write_bytes(data)
        if rows.offset <= position < rows.offset + rows.length:
            reader = CuckooReader(str(tmp_path / "part"), expected_bytes=info.num_bytes)
            assert_is_noticed(reader, units, (position - rows.offset) // (rows.length // 6))
            reader.close()
        else:
            with pytest.raises(BrokenIndexError, match="part"):
                CuckooReader(str(tmp_path / "part"))
    for length in range(len(content)):
        (tmp_path / "part").write_bytes(content[:length])
        with pytest.raises(BrokenIndexError):
            CuckooReader(str(tmp_path / "part"))
    (tmp_path / "part").write_bytes(content)
    with pytest.raises(BrokenIndexError, match="bytes"):
        CuckooReader(str(tmp_path / "part"), expected_bytes=info.num_bytes + 1)
    with pytest.raises(StorageError):
        CuckooReader(str(tmp_path / "no part"))


@pytest.mark.parametrize("chunk_bytes", [64, 1 << 18])
def test_a_file_that_is_cut_while_it_is_open(tmp_path: Path, chunk_bytes: int) -> None:
    units = random_units([100] * 60)
    write(tmp_path / "part", units, 38)
    reader = CuckooReader(str(tmp_path / "part"), chunk_bytes=chunk_bytes)
    with open(tmp_path / "part", "r+b") as file:
        file.truncate(reader._row_bytes * 20)
    values = np.array([h for hashes in units for h in hashes], np.uint64)
    _, first, second = reader.layout.locate(values)
    matches = reader.find(values)
    assert sorted(matches.unknown) == np.flatnonzero((first >= 20) | (second >= 20)).tolist()
    assert any(list(reader.check()))
    reader.close()
    assert set(reader.find(values).unknown) == set(range(len(values)))  # closed: nothing can be said, nothing is raised


@pytest.mark.parametrize(
    "change",
    [
        {"num_buckets": 0},
        {"num_buckets": 2**40},
        {"fingerprint_bits": 10},
        {"num_units": 4},
        {"num_units": 2**62},
        {"num_slots": 2**62},
        {"num_slots": 0},
        {"slot_bytes": 3},
        {"slot_bytes": 8},
        {"num_entries": "many"},
        {"num_entries": None},
        {"num_slots": -1},
    ],
)
def test_a_footer_that_lies(tmp_path: Path, change: dict[str, object]) -> None:
    write(tmp_path / "part", random_units([5, 0, 9]), 6)
    sections = Sections(str(tmp_path / "part"), "cuckoo")
    with SectionWriter(str(tmp_path / "other")) as out:
        for name in ("rows", "slots"):
            section = sections.section(name)
            if name == "rows":
                out.begin(name)
                out.write(sections.source.read_at(section.offset, section.length))
            else:
                out.add(name, sections.read(name))
        out.finish("cuckoo", {**sections.meta, **change})
    sections.close()
    with pytest.raises(BrokenIndexError, match="other"):
        CuckooReader(str(tmp_path / "other"))


def test_fewer_entries_than_declared(tmp_path: Path) -> None:
    write(tmp_path / "part", random_units([5]), 6)
    reader = CuckooReader(str(tmp_path / "part"))
    reader.num_entries += 1
    assert "5 fingerprints, not 6" in next(reader.check())
    reader.close()


@pytest.mark.parametrize("bits", [8, 12, 16])
def test_false_units_are_as_expected(tmp_path: Path, bits: int) -> None:
    units = random_units([100] * 400 + [900] * 40)
    write(tmp_path / "part", units, 38, bits)
    reader = CuckooReader(str(tmp_path / "part"))
    count = 4000
    matches = reader.find(np.array(random_units([count], 99)[0], np.uint64))
    assert len(matches.units) / count == pytest.approx(reader.expected_false(), rel=0.1)
    reader.close()


# ------------------------------------------------------------------------------------------------------------
# Merging
# ------------------------------------------------------------------------------------------------------------


@given(st.data(), st.sampled_from(BITS), st.sampled_from([0, 1 << 24]))
def test_merging(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, bits: int, limit: int) -> None:
    """New numbers in any order, removed units, several units that become one."""
    folder = tmp_path_factory.mktemp("merge")
    num_units = data.draw(st.integers(1, 12))
    merged: list[list[int]] = [[] for _ in range(num_units)]
    parts = []
    for number in range(data.draw(st.integers(1, 3))):
        sizes = data.draw(st.lists(st.sampled_from([0, 1, 5, 40]), max_size=6))
        units = random_units(sizes, number)
        write(folder / f"{number}", units, 11, bits)
        remap = data.draw(st.lists(st.integers(-1, num_units - 1), min_size=len(sizes), max_size=len(sizes)))
        for hashes, new in zip(units, remap, strict=True):
            if new >= 0:
                merged[new] += hashes
        parts.append((CuckooReader(str(folder / f"{number}")), np.array(remap, np.int64)))
    info = merge(parts, str(folder / "new"), num_units=num_units, memory_limit=limit)
    reader = CuckooReader(str(folder / "new"), expected_bytes=info.num_bytes)
    assert reader.num_units == num_units
    assert [bool(width) for width in reader.slots] == [bool(hashes) for hashes in merged]
    assert list(reader.check()) == []
    assert_finds(reader, merged)
    for old, _ in parts:
        old.close()
    reader.close()


def test_merging_as_if_written_at_once(tmp_path: Path) -> None:
    units = random_units([100, 3, 0, 250] * 100)
    units[17] = []  # as one that was removed
    write(tmp_path / "all", units)
    full = random_units([100, 3, 0, 250] * 100)
    write(tmp_path / "0", full[:150])
    write(tmp_path / "1", full[150:])
    readers = [CuckooReader(str(tmp_path / name)) for name in "01"]
    first = np.arange(150)
    first[17] = -1
    merge([(readers[0], first), (readers[1], np.arange(150, 400))], str(tmp_path / "new"), num_units=400)
    assert (tmp_path / "new").read_bytes() == (tmp_path / "all").read_bytes()
    for reader in readers:
        reader.close()


def test_filters_that_cannot_be_merged(tmp_path: Path) -> None:
    write(tmp_path / "a", random_units([9]), 5, 16)
    write(tmp_path / "b", random_units([9]), 6, 16)
    write(tmp_path / "c", random_units([9]), 5, 12)
    a, b, c = (CuckooReader(str(tmp_path / name)) for name in "abc")
    one = np.array([0])
    for parts in ([], [(a, one), (b, one)], [(a, one), (c, one)], [(a, np.array([1]))], [(a, np.array([0, 0]))]):
        with pytest.raises(ValueError):
            merge(parts, str(tmp_path / "new"), num_units=1)
    data = bytearray((tmp_path / "a").read_bytes())
    data[3] ^= 1
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(BrokenIndexError, match=r"a: row 0"):
        merge([(a, one)], str(tmp_path / "new"), num_units=1)
    assert not (tmp_path / "new").exists()
    for reader in (a, b, c):
        reader.close()


def test_the_files_layout(tmp_path: Path) -> None:
    """Parts stay readable across versions: one part, byte by byte."""
    write(tmp_path / "part", [[0, 2**63], [], [5 << 40]], 2, 8)
    sections = Sections(str(tmp_path / "part"), "cuckoo")
    rows = sections.section("rows")
    assert dict(sections.meta) == {
        "num_buckets": 2,
        "fingerprint_bits": 8,
        "num_units": 3,
        "num_slots": 2,
        "slot_bytes": 1,
        "num_entries": 3,  # 0 and 2**63 have the same fingerprint, and no bucket in common
    }
    assert sections.read("slots") == struct.pack("3B", 1, 0, 1)
    assert rows.length == 2 * (2 + 4)
    sections.close()

"""Parts of postings: written, read, damaged and merged, against dicts."""

import itertools
import os
import random
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from parquet_bloom.errors import BrokenIndexError, ParquetBloomError, StorageError
from parquet_bloom.lake import postings_writer
from parquet_bloom.lake.index_part import Sections, SectionWriter
from parquet_bloom.lake.postings_reader import PostingsReader, merge
from parquet_bloom.lake.postings_writer import PartShape, PostingsWriter, pack_units, unpack_units, write_sorted
from parquet_bloom.lake.sorted_runs import SortedRuns

ALL = 2**64 - 1


def written(path, units, prefix_bits=35, num_units=None, memory_limit=1 << 20, filesystem=None):
    """Write {unit: hashes} as a part."""
    writer = PostingsWriter(str(path), filesystem, prefix_bits, memory_limit)
    try:
        for unit, hashes in units.items():
            writer.add(unit, np.array(sorted(hashes), np.uint64))
        return writer.finish(max(units, default=-1) + 1 if num_units is None else num_units)
    finally:
        writer.close()


def truth_of(units, prefix_bits=35):
    """{prefix: sorted units}."""
    truth = {}
    for unit, hashes in sorted(units.items()):
        for prefix in {h >> (64 - prefix_bits) for h in hashes}:
            truth.setdefault(prefix, []).append(unit)
    return truth


def random_units(num_units, values, seed=0, shared=(), everywhere=()):
    rng = random.Random(seed)
    pool = [rng.getrandbits(64) for _ in range(50)]
    units = {unit: {rng.getrandbits(64) for _ in range(values)} | set(everywhere) for unit in range(num_units)}
    for unit in units:
        units[unit] |= set(rng.sample(pool, 3)) | set(shared)
    return units


def answers(matches):
    reported = {}
    assert matches.queries.tolist() == sorted(matches.queries.tolist())
    assert matches.queries.dtype == np.intp
    assert matches.units.dtype == np.uint32
    for query, unit in zip(matches.queries.tolist(), matches.units.tolist(), strict=True):
        reported.setdefault(query, []).append(unit)
    return reported


def require_truth(reader, truth, prefix_bits=35):
    """Every value is found with just its units, in a batch in any order, with repetitions, and alone."""
    shift = 64 - prefix_bits
    rng = random.Random(1)
    prefixes = [*truth, *list(truth)[:20]]
    rng.shuffle(prefixes)
    hashes = [(prefix << shift) | rng.getrandbits(shift) for prefix in prefixes]
    absent = [h for h in (rng.getrandbits(64) for _ in range(50)) if h >> shift not in truth]
    matches = reader.find(np.array(hashes + absent, np.uint64))
    assert not matches.unknown
    assert answers(matches) == {query: truth[prefix] for query, prefix in enumerate(prefixes)}
    for h in (hashes + absent)[:: max(1, len(hashes) // 200)]:
        alone = reader.find(np.array([h], np.uint64))
        assert not alone.unknown
        assert answers(alone).get(0, []) == truth.get(h >> shift, [])


def all_keys(reader, chunk_bytes=1 << 12):
    chunks = list(reader.keys(chunk_bytes))
    return [key for chunk in chunks for key in chunk.tolist()]


def keys_of(truth, prefix_bits=35):
    return sorted((prefix << (64 - prefix_bits)) | unit for prefix, units in truth.items() for unit in units)


UNITS = {
    "none": {},
    "one": {0: {5}},
    "extremes": {0: {0, ALL}, 3: {0}, 6: {ALL, 2**63}},
    "hot": random_units(300, 3, everywhere=[0, ALL, 12345 << 40]),
    "at the threshold": {
        u: {7 << 40, *([9 << 40] if u < 64 else []), *([11 << 40] if u < 63 else [])} for u in range(65)
    },
    "many": random_units(40, 300),
    "clustered": {u: {(1 << 63) | (n << 24) for n in range(u, 400)} for u in range(20)},
}


@pytest.mark.parametrize("prefix_bits", [35, 40, 12, 1])
@pytest.mark.parametrize("name", UNITS)
def test_a_part_finds_all_that_was_put_in(tmp_path, name, prefix_bits):
    units, path = UNITS[name], tmp_path / "a part ü.pb"
    info = written(path, units, prefix_bits)
    truth = truth_of(units, prefix_bits)
    assert (info.name, info.num_bytes) == (path.name, path.stat().st_size)
    assert info.num_entries == sum(map(len, truth.values()))
    reader = PostingsReader(str(path), None, info.num_bytes)
    assert reader.info == info
    assert list(reader.check()) == []
    require_truth(reader, truth, prefix_bits)
    assert all_keys(reader) == keys_of(truth, prefix_bits)
    assert reader.expected_false() == pytest.approx(info.num_entries / 2**prefix_bits)
    reader.close()


def test_unused_hashes_and_empty_batches(tmp_path):
    written(tmp_path / "p", UNITS["many"])
    reader = PostingsReader(str(tmp_path / "p"))
    matches = reader.find(np.empty(0, np.uint64))
    assert (len(matches.queries), matches.unknown, matches.requests) == (0, {}, 0)


@pytest.mark.parametrize("num_units", [2**20, 2**20 - 1, 2**20 + 1, 2**29])
def test_large_numbers_of_units(tmp_path, num_units):
    units = {0: {1, ALL}, 2**20 - 2: {1, ALL}, num_units - 1: {0, 1, ALL}}
    info = written(tmp_path / "p", units, 35, num_units)
    reader = PostingsReader(str(tmp_path / "p"))
    require_truth(reader, truth_of(units))
    assert info.num_entries == len(all_keys(reader))


def test_more_units_than_keys_have_room_for_are_refused(tmp_path):
    writer = PostingsWriter(str(tmp_path / "p"), None, 40)
    with pytest.raises(ParquetBloomError, match="unit 16777216"):
        writer.add(2**24, np.array([1], np.uint64))
    with pytest.raises(ParquetBloomError, match="room for 16777216"):
        writer.finish(2**24 + 1)
    assert os.listdir(tmp_path) == []
    writer = PostingsWriter(str(tmp_path / "p"), None, 35)
    writer.add(3, np.array([1], np.uint64))
    with pytest.raises(ValueError, match="unit 3"):
        writer.finish(3)
    with pytest.raises(ParquetBloomError, match="1 to 40"):
        PostingsWriter(str(tmp_path / "p"), None, 41)


@pytest.mark.ci
def test_keys_beyond_memory_are_sorted_by_way_of_the_disk(tmp_path):
    rng = np.random.default_rng(3)
    units = {unit: rng.integers(0, 2**64, 3000, dtype=np.uint64) for unit in range(70)}
    for hashes in units.values():
        hashes[:100] = np.arange(100, dtype=np.uint64) << np.uint64(50)  # in all: hot values
    writer = PostingsWriter(str(tmp_path / "p"), None, 35, 1 << 18, tmp_path)
    for unit, hashes in units.items():
        writer.add(unit, hashes[:2000])
        writer.add(unit, hashes[1500:])  # some twice
    assert len(writer._runs._runs) > 3
    info = writer.finish(70)
    truth = truth_of({unit: set(hashes.tolist()) for unit, hashes in units.items()})
    reader = PostingsReader(str(tmp_path / "p"))
    assert all_keys(reader) == keys_of(truth)
    assert info.num_entries == sum(map(len, truth.values()))
    assert list(reader.check()) == []
    require_truth(reader, truth)
    assert os.listdir(tmp_path) == ["p"]


@given(st.data())
def test_property_runs_are_sorted_whatever_comes(data):
    runs = SortedRuns(0)
    runs._room, runs._window, runs._step = (
        data.draw(st.integers(1, 40)), data.draw(st.integers(1, 60)), data.draw(st.integers(1, 9))
    )  # fmt: skip
    few = st.integers(0, 20)
    chunks = data.draw(st.lists(st.lists(few | st.integers(0, ALL), max_size=70), max_size=8))
    for chunk in chunks:
        runs.add(np.array(chunk, np.uint64))
    got = [key for keys in runs.sort() for key in keys.tolist()]
    assert got == sorted({key for chunk in chunks for key in chunk})
    assert runs.num_keys >= len(got)
    runs.close()
    runs.close()


def test_memory_stays_below_the_limit(tmp_path):
    limit = 8 << 20
    rng = np.random.default_rng(5)
    tracemalloc.start()
    try:
        writer = PostingsWriter(str(tmp_path / "p"), None, 35, limit, tmp_path)
        for unit in range(300):
            writer.add(unit, rng.integers(0, 2**64, 10_000, dtype=np.uint64))
        writer.finish(300)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit
    assert len(PostingsReader(str(tmp_path / "p")).find(np.zeros(2, np.uint64)).unknown) == 0


@pytest.mark.parametrize("cuts", [[2**63], [1, 2, 2**60 + 12345, 2**63 - 1, ALL], [ALL - 5]])
def test_slices_of_a_part_find_together_what_the_whole_does(tmp_path, cuts):
    units = random_units(100, 50, everywhere=[0, 1, 2**60 + 12345, 2**60 + 12346, ALL, ALL - 5])
    shift = 64 - 35
    bounds = [0, *cuts, ALL + 1]
    readers = []
    for number, (first, end) in enumerate(itertools.pairwise(bounds)):
        keys = sorted({h >> shift << shift | u for u, hashes in units.items() for h in hashes if first <= h < end})
        chunks = [np.array(keys[at : at + 700], np.uint64) for at in range(0, len(keys), 700)]
        path = str(tmp_path / str(number))
        info = write_sorted(path, None, chunks, PartShape(35, 100, first, end - 1, len(keys)))
        assert (info.first, info.last, info.num_entries) == (first, end - 1, len(keys))
        readers.append(PostingsReader(path))
        assert list(readers[-1].check()) == []
        assert readers[-1].expected_false() == pytest.approx(len(keys) / 2**35 / ((end - first) / 2**64))
    hashes = sorted({h for many in units.values() for h in many})
    for reader in readers:
        info = reader.info
        reported = answers(reader.find(np.array(hashes, np.uint64)))
        for query, h in enumerate(hashes):
            if not info.first <= h <= info.last:
                assert query not in reported
                assert len(reader.find(np.array([h], np.uint64)).units) == 0
                continue
            exact = [unit for unit, many in units.items() if h in many]
            assert set(reported[query]) >= set(exact)
            assert reader.find(np.array([h], np.uint64)).units.tolist() == reported[query]
    same = np.arange(100)
    info = merge([(reader, same) for reader in readers], str(tmp_path / "all"), None, PartShape(35, 100), 1 << 20)
    assert (info.first, info.last) == (0, ALL)
    require_truth(PostingsReader(str(tmp_path / "all")), truth_of(units))


def test_unsorted_or_out_of_range_input_is_refused(tmp_path):
    path = str(tmp_path / "p")
    many = np.arange(1, 5, dtype=np.uint64) << np.uint64(60)
    for chunks, first, last in [
        ([many[::-1]], 0, ALL),
        ([many, many], 0, ALL),
        ([many[2:], many[:2]], 0, ALL),
        ([np.array([7, 7], np.uint64)], 0, ALL),
        ([np.array([10], np.uint64)], 0, ALL),  # of ten units
        ([many], 2 << 60, ALL),
        ([many], 0, 3 << 60),
    ]:
        with pytest.raises(ValueError):
            write_sorted(path, None, chunks, PartShape(35, 10, first, last, 10))
        assert os.listdir(tmp_path) == []
    with pytest.raises(ParquetBloomError, match="no hashes"):
        write_sorted(path, None, [], PartShape(35, 10, 5, 4))


@pytest.mark.ci
def test_a_large_directory_is_read_where_it_is_needed(tmp_path):
    units = random_units(50, 1200)
    written(tmp_path / "p", units)
    reader = PostingsReader(str(tmp_path / "p"), directory_bytes=0)
    assert reader._directory._data is None
    assert reader._directory.num_blocks > 10
    require_truth(reader, truth_of(units))
    assert list(reader.check()) == []
    assert all_keys(reader) == keys_of(truth_of(units))
    section = reader._sections.section("directory")
    data = bytearray((tmp_path / "p").read_bytes())
    for at in range(section.offset, section.offset + section.length, 37):
        broken = bytearray(data)
        broken[at] ^= 0x41
        (tmp_path / "q").write_bytes(broken)
        damaged = PostingsReader(str(tmp_path / "q"), directory_bytes=0)
        require_no_loss(damaged, truth_of(units), expect_damage=False)
        assert list(damaged.check())
        with pytest.raises(BrokenIndexError):
            PostingsReader(str(tmp_path / "q"))


def require_no_loss(reader, truth, expect_damage=True):
    """Each value either has all its units, or is said to be unknown; in a batch and alone."""
    hashes = np.array([prefix << 29 for prefix in sorted(truth)], np.uint64)
    matches = reader.find(hashes)
    reported = answers(matches)
    for query, prefix in enumerate(sorted(truth)):
        assert query in matches.unknown or reported.get(query) == truth[prefix]
    if expect_damage:
        assert matches.unknown
    for query in [*list(matches.unknown)[:5], 0, len(hashes) - 1]:
        alone = reader.find(hashes[query : query + 1])
        assert 0 in alone.unknown or alone.units.tolist() == truth[sorted(truth)[query]]
        assert (0 in alone.unknown) == (query in matches.unknown)
    for reason in matches.unknown.values():
        assert "\n" not in reason


@pytest.mark.ci
def test_damage_never_loses_a_unit(tmp_path):
    units = random_units(150, 30, everywhere=[3 << 40, ALL])
    written(tmp_path / "p", units)
    truth = truth_of(units)
    data = (tmp_path / "p").read_bytes()
    sections = Sections(str(tmp_path / "p"), "postings")
    rng = random.Random(2)
    for name in ("blocks", "hot"):
        section = sections.section(name)
        for at in rng.sample(range(section.offset, section.offset + section.length), min(40, section.length)):
            broken = bytearray(data)
            broken[at] ^= 1 << rng.randrange(8)
            (tmp_path / "q").write_bytes(broken)
            reader = PostingsReader(str(tmp_path / "q"), expected_bytes=len(data))
            require_no_loss(reader, truth)
            assert list(reader.check())
            with pytest.raises(BrokenIndexError):
                all_keys(reader)
            with pytest.raises(BrokenIndexError):
                merge([(reader, np.arange(150))], str(tmp_path / "r"), None, PartShape(35, 150))
            assert not (tmp_path / "r").exists()
    for at in range(sections.section("directory").offset, len(data)):
        broken = bytearray(data)
        broken[at] ^= 1 << rng.randrange(8)
        (tmp_path / "q").write_bytes(broken)
        with pytest.raises(BrokenIndexError, match="q: "):
            PostingsReader(str(tmp_path / "q"))


def test_a_file_cut_or_changed_while_it_is_open(tmp_path):
    units = random_units(150, 30, everywhere=[3 << 40])
    written(tmp_path / "p", units)
    reader = PostingsReader(str(tmp_path / "p"))
    os.truncate(tmp_path / "p", 3000)
    require_no_loss(reader, truth_of(units))
    assert list(reader.check())
    os.truncate(tmp_path / "p", 0)
    require_no_loss(reader, truth_of(units))


def test_parts_that_cannot_be_opened(tmp_path):
    info = written(tmp_path / "p", UNITS["many"])
    with pytest.raises(StorageError):
        PostingsReader(str(tmp_path / "missing"))
    with pytest.raises(BrokenIndexError, match="not 7"):
        PostingsReader(str(tmp_path / "p"), expected_bytes=7)
    PostingsReader(str(tmp_path / "p"), expected_bytes=info.num_bytes).close()
    good = dict(Sections(str(tmp_path / "p"), "postings").meta)
    for change in [
        {"bits": [35, 12]}, {"bits": [99, 0, 0, 1]}, {"bits": "four"}, {"units": -1}, {"units": 2**30}, {"units": "x"},
        {"entries": 1.5}, {"first": -1}, {"last": 2**64}, {"first": 9, "last": 8}, {"last": 2**60}, {"bits": None},
        {"bits": [35, 12, 8, 2**70]},
    ]:  # fmt: skip
        with SectionWriter(str(tmp_path / "q"), None) as file:
            for name in ("blocks", "hot", "directory"):
                file.add(name, Sections(str(tmp_path / "p"), "postings").read(name))
            file.finish("postings", good | change)
        with pytest.raises(BrokenIndexError, match="q: "):
            PostingsReader(str(tmp_path / "q"))


def test_check_finds_what_checksums_cannot(tmp_path):
    written(tmp_path / "p", UNITS["hot"])
    sections = Sections(str(tmp_path / "p"), "postings")
    for change, hot in [({"entries": 7}, b""), ({}, b"more")]:
        with SectionWriter(str(tmp_path / "q"), None) as file:
            file.add("blocks", sections.read("blocks"))
            file.add("hot", sections.read("hot") + hot)
            file.add("directory", sections.read("directory"))
            file.finish("postings", dict(sections.meta) | change)
        (line,) = PostingsReader(str(tmp_path / "q")).check()
        assert "q: " in line


@pytest.mark.parametrize("memory_limit", [1 << 14, 1 << 24])
def test_merge(tmp_path, memory_limit):
    everywhere = [0, ALL, 77 << 40]
    first, second = random_units(120, 40, 1, everywhere=everywhere), random_units(90, 60, 2, everywhere=everywhere)
    third = {0: {5}, 1: set()}
    remaps = [np.arange(120)[::-1].copy(), np.arange(120, 210), np.array([210, -1])]
    remaps[0][10:40] = -1
    remaps[1][::7] = -1
    merged, readers = {}, []
    for number, (units, bits) in enumerate([(first, 35), (second, 38), (third, 36)]):
        written(tmp_path / str(number), units, bits, len(units))
        readers.append(PostingsReader(str(tmp_path / str(number))))
        for unit, hashes in units.items():
            if remaps[number][unit] >= 0:
                merged.setdefault(int(remaps[number][unit]), set()).update(hashes)
    pairs = list(zip(readers, remaps, strict=True))
    for bits in (35, 20):
        info = merge(pairs, str(tmp_path / "m"), None, PartShape(bits, 300), memory_limit)
        truth = truth_of(merged, bits)
        reader = PostingsReader(str(tmp_path / "m"), None, info.num_bytes)
        assert (reader.num_units, info.num_entries) == (300, sum(map(len, truth.values())))
        require_truth(reader, truth, bits)
        assert all_keys(reader) == keys_of(truth, bits)
        assert list(reader.check()) == []
    with pytest.raises(ValueError, match="35 bits"):
        merge(pairs, str(tmp_path / "m"), None, PartShape(36, 300))
    with pytest.raises(ValueError, match="new number"):
        merge(pairs, str(tmp_path / "m"), None, PartShape(35, 209))
    with pytest.raises(ValueError, match="new number"):
        merge([(readers[0], remaps[0][1:])], str(tmp_path / "m"), None, PartShape(35, 300))
    nothing = merge([(readers[0], np.full(120, -1))], str(tmp_path / "m"), None, PartShape(35, 0))
    assert nothing.num_entries == 0
    assert merge([], str(tmp_path / "n"), None, PartShape(35, 4)).num_entries == 0
    assert len(PostingsReader(str(tmp_path / "n")).find(np.array([1, 2], np.uint64)).units) == 0


def test_values_in_many_units_are_listed_in_all(tmp_path):
    """So that a merge, which knows of no more than a part's own units, cannot take *frequent* for *absent*."""
    num_units, counts = 8000, {1 << 40: 1001, 2 << 40: 1000, 3 << 40: 513, ALL: 8000, 5 << 40: 1}
    units = {unit: {value for value, count in counts.items() if unit < count} for unit in range(num_units)}
    path = tmp_path / "p"
    writer = PostingsWriter(str(path), None, 28, 1 << 20, listed_share=8)
    for unit, hashes in units.items():
        writer.add(unit, np.array(sorted(hashes), np.uint64))
    info = writer.finish(num_units)
    reader = PostingsReader(str(path), None, info.num_bytes)
    truth = truth_of(units, 28)
    truth[(1 << 40) >> 36] = list(range(num_units))
    assert info.num_entries == sum(map(len, truth.values()))
    require_truth(reader, truth, 28)
    assert all_keys(reader) == keys_of(truth, 28)
    assert list(reader.check()) == []
    requests = {value: reader.find(np.array([value], np.uint64)).requests for value in counts}
    assert requests == {1 << 40: 1, 2 << 40: 2, 3 << 40: 2, ALL: 1, 5 << 40: 1}  # all units take no read of a list
    together = reader.find(np.array([1 << 40, 3 << 40, ALL], np.uint64))
    assert np.bincount(together.queries).tolist() == [8000, 513, 8000]

    # Of few units more than 512 are many; of those of a part that go, none comes back.
    small = {unit: {1 << 40 if unit < 512 else 4 << 40, *([3 << 40] if unit < 513 else [])} for unit in range(600)}
    writer = PostingsWriter(str(tmp_path / "q"), None, 28, 1 << 20, listed_share=8)
    for unit, hashes in small.items():
        writer.add(unit, np.array(sorted(hashes), np.uint64))
    writer.finish(600)
    few = PostingsReader(str(tmp_path / "q"))
    others = truth_of(small, 28)
    others[(3 << 40) >> 36] = list(range(600))
    require_truth(few, others, 28)
    remaps = [np.full(num_units, -1), np.arange(600)]
    remaps[0][::2] = np.arange(600, 600 + num_units // 2)
    merged = {prefix: list(one) for prefix, one in others.items()}
    for prefix, one in truth.items():
        merged[prefix] = sorted([*merged.get(prefix, []), *(int(remaps[0][unit]) for unit in one if not unit % 2)])
    total = 600 + num_units // 2
    merged = {prefix: [*range(total)] if len(one) > total // 8 else one for prefix, one in merged.items()}
    info = merge(
        [(reader, remaps[0]), (few, remaps[1])], str(tmp_path / "m"), None, PartShape(28, total, listed_share=8)
    )
    both = PostingsReader(str(tmp_path / "m"), None, info.num_bytes)
    require_truth(both, merged, 28)
    assert info.num_entries == sum(map(len, merged.values()))
    assert all_keys(both) == keys_of(merged, 28)
    assert list(both.check()) == []
    info = merge([(reader, remaps[0])], str(tmp_path / "n"), None, PartShape(28, total))
    assert info.num_entries == sum(len(one[::2]) for one in truth.values())  # without a share as they are


@pytest.mark.ci
def test_a_part_in_an_object_store(tmp_path):
    store = MemoryStore()
    units = random_units(400, 500, everywhere=[0, ALL])
    info = written("index/part", units, filesystem=store)
    reader = PostingsReader("index/part", store, info.num_bytes)
    require_truth(reader, truth_of(units))
    assert list(reader.check()) == []
    alone = reader.find(np.array([5], np.uint64))
    assert alone.requests <= 1
    assert 0 < alone.bytes_read < 40_000
    batch = reader.find(np.arange(0, 2**64, 2**58, dtype=np.uint64))
    assert batch.requests < 64  # those of neighbours are one
    store.delete("index/part")
    gone = reader.find(np.array([2**40], np.uint64))
    assert "index/part" in gone.unknown[0]
    with pytest.raises(StorageError):
        PostingsReader("index/part", store)


@pytest.mark.ci
def test_several_threads_may_use_a_reader(tmp_path):
    units = random_units(100, 200, everywhere=[9])
    written(tmp_path / "p", units)
    reader, truth, errors = PostingsReader(str(tmp_path / "p"), directory_bytes=0), truth_of(units), []

    def work():
        try:
            require_truth(reader, truth)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@given(st.sets(st.integers(0, 200_000) | st.integers(0, 2000), max_size=200), st.data())
def test_property_lists_of_units(units, data):
    packed = pack_units(np.array(sorted(units), np.uint32))
    assert unpack_units(packed, 200_001).tolist() == sorted(units)
    broken = bytearray(packed)
    broken[data.draw(st.integers(0, len(packed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(BrokenIndexError):
        unpack_units(bytes(broken), 200_001)
    if units:
        with pytest.raises(BrokenIndexError, match="there are"):
            unpack_units(packed, max(units))


@given(st.binary(max_size=60), st.integers(0, 2**32 - 1))
def test_lists_of_anything_with_a_valid_checksum_do_no_harm(body, num_units):
    from parquet_bloom.lake.postings_writer import _checksum

    for data in (body, body[:1] + pack_units(np.arange(0, 9000, 3, dtype=np.uint32))[1:-4] + body):
        try:
            units = unpack_units(data + _checksum(data), num_units)
        except BrokenIndexError:
            continue
        assert (np.diff(units.astype(np.int64)) > 0).all()
        assert not len(units) or units[-1] < num_units


def test_many_lists_wait_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(postings_writer, "_LISTS_IN_MEMORY", 100)
    units = random_units(200, 5, everywhere=[n << 50 for n in range(60)])
    written(tmp_path / "p", units)
    reader = PostingsReader(str(tmp_path / "p"))
    require_truth(reader, truth_of(units))
    assert list(reader.check()) == []


@given(st.data())
def test_property_a_part_finds_all(tmp_path_factory, data):
    prefix_bits = data.draw(st.integers(1, 40))
    few = data.draw(st.lists(st.integers(0, ALL), min_size=1, max_size=4))
    hashes = st.sampled_from([0, ALL, *few]) | st.integers(0, ALL)
    num_units = data.draw(st.integers(1, 200))
    numbers = st.integers(0, num_units - 1)
    units = data.draw(st.dictionaries(numbers, st.sets(hashes, max_size=20), max_size=120))
    common = data.draw(hashes)
    for unit in range(data.draw(st.integers(0, num_units))):
        units.setdefault(unit, set()).add(common)
    path = tmp_path_factory.mktemp("part") / "p"
    written(path, dict(sorted(units.items())), prefix_bits, num_units, memory_limit=1)
    reader = PostingsReader(str(path))
    require_truth(reader, truth_of(units, prefix_bits), prefix_bits)
    assert list(reader.check()) == []
    reader.close()

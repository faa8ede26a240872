"""Files with filters of the format's drafts: read under a variant that is named or detected; unread, never believed."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.oracle import oracle
from support.writers import drafts, surgery
from support.writers.drafts import DRAFTS, plain_values, write_draft

import parquet_bloom
from parquet_bloom import MetadataCache, errors
from parquet_bloom.file import detect_variant
from parquet_bloom.file import drafts as reader
from parquet_bloom.file.column_statistics import file_statistics
from parquet_bloom.filter import hash_values
from parquet_bloom.types import Variant

GROUP = 60
COLUMNS = ("i", "s", "d")


def number_of(row: int) -> int:
    """The number in a row; each row group has small ones and large ones."""
    return row * 37 % (2 * GROUP) * 13


def make_table(groups: int = 2) -> pa.Table:
    rows = range(groups * GROUP)
    return pa.table(
        {
            "i": pa.array([None if n % 7 == 0 else number_of(n) for n in rows], pa.int64()),
            "plain": pa.array(rows, pa.int32()),
            "s": [f"s{n}" for n in rows],
            "d": [n / 3 for n in rows],
        }
    )


@pytest.fixture(params=[False, True], ids=["apart", "counted"])
def counted(request: pytest.FixtureRequest) -> bool:
    """Return whether the sizes of column chunks include the filters at their beginning."""
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.parquet"


def write(path: Path, name: str, **options: object) -> pa.Table:
    table = options.pop("table", None) or make_table()
    write_draft(path, table, COLUMNS, name, row_group_size=GROUP, **options)
    if not options.get("counted") or options.get("num_bytes", 0) < 1024:  # else pages seem to end after the file
        assert pq.read_table(path).equals(table)  # what was done to the file is right: others read it
    return table


# ---------------------------------------------------------------------------------------------------- reading


@pytest.mark.ci
@pytest.mark.parametrize("name", DRAFTS)
@pytest.mark.parametrize("num_bytes", [256, 1 << 14])  # read whole, and by blocks
def test_filters_under_their_variant(path, name, counted, num_bytes):

    def twin_contains(twin: drafts.DraftFilter, value: object) -> bool:
        """Return whether a filter's twin may contain a value."""
        if value is None:
            return True
        if value == 0.0 and isinstance(value, float):
            return any(twin.check(struct.pack("<d", zero)) for zero in (0.0, -0.0))
        if isinstance(value, str):
            return twin.check(value.encode())
        return -(2**63) <= value < 2**63 and twin.check(struct.pack("<d" if isinstance(value, float) else "<q", value))

    def twins(table: pa.Table, name: str, num_bytes: int) -> dict[tuple[int, str], drafts.DraftFilter]:
        return {
            (group, column): drafts.filled(name, num_bytes, plain_values(table.slice(group * GROUP, GROUP)[column]))
            for group in range(table.num_rows // GROUP)
            for column in COLUMNS
        }

    table = write(path, name, counted=counted, num_bytes=num_bytes, write_page_index=num_bytes == 256)
    expected = twins(table, name, num_bytes)
    queried = {"i": [13, 7, 1300, None, 2**70], "s": ["s1", "s99", "nothing"], "d": [0.0, 1 / 3, 0.25]}
    with parquet_bloom.open(path, variant=name) as file:
        assert file.variant == Variant.of(name)
        for column, values in queried.items():
            chunks = list(file.chunks(columns=[column]))
            probed = parquet_bloom.probe(chunks, values)
            assert probed.doubts == (None, None)
            for row, chunk in zip(probed.maybe.tolist(), chunks, strict=True):
                twin = expected[chunk.row_group, column]
                assert chunk.variant == chunk.filter.variant == file.variant
                assert chunk.filter.to_bytes() == twin.to_bytes()
                assert row == [twin_contains(twin, value) for value in values]
                assert [value in chunk.filter for value in values] == row
    assert parquet_bloom.verify(path, data=True, variant=name).ok


@pytest.mark.parametrize("name", DRAFTS[::2])
def test_detected(path, name, counted):
    write(path, name, counted=counted)
    with parquet_bloom.open(path) as file:
        assert detect_variant(file) == Variant.of(name)
        assert detect_variant(file, ["s"], [1]) == Variant.of(name)
        assert detect_variant(file, ["plain"]) is None  # which has no filter
    with parquet_bloom.open(path, variant="detect") as file:
        chunks = list(file.chunks())
        assert [chunk.variant.name for chunk in chunks] == 6 * [name]
        assert file.filter(0, "i").check([number_of(1), 7]).tolist() == [True, False]
        assert parquet_bloom.probe(chunks[:1], [number_of(1), 7]).maybe.tolist() == [[True, False]]
    assert parquet_bloom.verify(path, data=True, variant="detect").ok


def test_todays_files_are_detected_as_such(path):
    pq.write_table(make_table(), path)
    parquet_bloom.embed(path, COLUMNS)
    with parquet_bloom.open(path) as file:
        assert detect_variant(file).name == "final"
    assert parquet_bloom.verify(path, data=True, variant="detect").ok
    assert parquet_bloom.verify(path, data=True, variant="final").ok


def test_files_of_many_kinds_are_probed_together(tmp_path):
    """Several variants, sizes and block choices in one call, of named and detected files."""
    results = []
    for number, name in enumerate(drafts.NAMES):
        path = tmp_path / f"{number}.parquet"
        write(path, name, num_bytes=128 << number)
        results.append(parquet_bloom.open(path, variant="detect" if number % 2 else name))
    chunks = [chunk for file in results for chunk in file.chunks(columns=["i"])]
    probed = parquet_bloom.probe(chunks, [number_of(1), number_of(GROUP + 1)])
    assert probed.maybe.tolist() == len(results) * [[True, False], [False, True]]
    assert set(probed.doubts) == {None}
    for file in results:
        file.close()


# ---------------------------------------------------------------------------------------------------- unnamed


@pytest.mark.ci
@pytest.mark.parametrize("name", [name for name in DRAFTS if not name.endswith("thrift4")])
def test_no_row_is_lost_where_no_variant_is_named(path, name, counted):
    """Every filter is a doubt, which is read."""
    table = write(path, name, counted=counted)
    report = parquet_bloom.verify(path)
    assert len(report.problems) == 6
    assert "it is a draft's; to read it, name its variant, or 'detect'" in str(report.problems[0])
    for number in (1, 5, GROUP + 1, 2 * GROUP - 2):
        where = f"i = {number_of(number)}"
        decision = parquet_bloom.prune(path, where).files[0].row_groups[number // GROUP]
        assert decision.read
        assert decision.doubts
        assert parquet_bloom.read_table(path, where)["s"].to_pylist() == [f"s{number}"]
    where = f"s = 's3' OR i IN ({number_of(GROUP + 1)}, 14)"
    assert parquet_bloom.read_table(path, where)["s"].to_pylist() == ["s3", f"s{GROUP + 1}"]
    assert parquet_bloom.read_table(path, "plain >= 0").num_rows == table.num_rows


@pytest.mark.usefixtures("settled_footers")
def test_cached_answers_of_one_variant_are_not_used_for_another(path):
    """A cache keeps the footer, and nothing that is true of its filters under a draft alone."""
    write(path, "murmur3+mask+raw", counted=True)
    cache = MetadataCache()
    for _ in range(2):
        with parquet_bloom.open(path, cache=cache, variant="murmur3+mask+raw") as file:
            assert file.filter(0, "i").check([number_of(1), 14]).tolist() == [True, False]
            evidence = file_statistics(file, ["i"]).columns["i"].evidence
            assert not evidence.filtered.any()
            assert evidence.doubts == 2 * ("its filter is read under variant murmur3+mask+raw",)
            file.remember()
        report = parquet_bloom.prune(path, f"i = {number_of(1)}", cache=cache)
        assert report.files[0].row_groups[0].doubts
        assert report.files[0].row_groups[0].read
    assert len(cache) == 1


def test_a_variant_that_does_not_exist(path):
    pq.write_table(make_table(), path)
    for use in (parquet_bloom.open, parquet_bloom.verify):
        with pytest.raises(ValueError, match="there is no variant 'draft'; there are final, murmur3"):
            use(path, variant="draft")


@pytest.mark.parametrize("name", ["murmur3+mask+raw", "xxh64+mask+thrift3"])
def test_another_variant_is_found_out(path, name):
    write(path, name)
    for other in drafts.NAMES:
        report = parquet_bloom.verify(path, data=True, variant=other)
        same_header = drafts.parts(other)[2] == drafts.parts(name)[2]
        assert report.ok == (other == name)
        if other != name:
            assert len(report.problems) == 6
            output = "the filter denies" if same_header else "variant" if other != "final" else "draft"
            assert all(output in problem.problem for problem in report.problems)


@pytest.mark.parametrize("name", ["murmur3+mask+raw", "xxh64+mask+thrift3"])
def test_embedding_replaces_drafts(path, name, counted):
    table = write(path, name, counted=counted)
    if counted:  # the footer takes pages to reach to where the new filters would stand
        with pytest.raises(errors.MalformedFooterError, match=r"row group 1, column 'd': .* reach beyond the footer's"):
            parquet_bloom.embed(path, COLUMNS, replace=True)
        return
    parquet_bloom.embed(path, COLUMNS, replace=True)
    assert parquet_bloom.verify(path, data=True).ok
    assert pq.read_table(path).equals(table)
    assert parquet_bloom.prune(path, f"i = {number_of(1)}").selected == {str(path): [0]}


# ---------------------------------------------------------------------------------------------------- detection


def evidence(name: str, values: int, num_bytes: int, *, tried: str = "") -> reader.Trial:
    """A trial of a filter by so many values, all of them in it."""
    plain = [struct.pack("<q", n) for n in range(values)]
    filled_filter = drafts.filled(name, num_bytes, plain)
    array = pa.array(range(values), pa.int64())
    hashes = {
        "XXH64": hash_values(array),
        "MURMUR3": np.array([drafts.murmur3_x64_128(value, drafts.SEED)[0] for value in plain], np.uint64),
    }
    header = reader.FilterHeader(num_bytes, "BLOCK", "?", "UNCOMPRESSED", 12, tried or drafts.parts(name)[2])
    return reader.Trial.of(header, np.frombuffer(filled_filter.to_bytes(), np.uint8), hashes)


@pytest.mark.parametrize("name", drafts.NAMES)
def test_results_of_trials(name):
    form = drafts.parts(name)[2]
    sure = evidence(name, 100, 1024)
    assert (sure.fitting, sure.problem) == ((Variant.of(name),), None)
    few = evidence(name, 2, 1024)
    assert "too few" in few.problem or "fit" in few.problem
    full = evidence(name, 3000, 64)
    assert full.problem.endswith(" fit")
    assert len(full.fitting) == (2 if form == "thrift4" else 4)
    none = evidence(name, 0, 1024)
    assert none.problem == "its variant cannot be said: its column has no values to tell it by"
    other = {"raw": "xxh64+mask+thrift3", "thrift3": "xxh64+mask+raw", "thrift4": "murmur3+mask+raw"}[form]
    foreign = evidence(other, 100, 1024, tried=form)
    if form == "thrift4":
        assert foreign.problem == "no variant fits: under each, the filter denies values of its column"


def test_filters_of_one_block_and_many_together() -> None:
    one = evidence("murmur3+mask+raw", 12, 32)
    assert [fitting.name for fitting in one.fitting] == ["murmur3+mask+raw", "murmur3+multiply-shift+raw"]
    assert one.of_single_blocks().fitting == one.fitting[:1]  # they know no choice of their block
    assert one.of_single_blocks().problem is None
    assert evidence("final", 12, 32).of_single_blocks().fitting == (Variant.of("final"),)
    few = evidence("murmur3+mask+raw", 4, 1024)
    assert few.problem.endswith("4 distinct values are too few to tell it by")
    combined = reader.Trial.together([few, few, few])
    assert (combined.problem, combined.num_values) == (None, 12)
    mixed = reader.Trial.together([few, few, evidence("xxh64+mask+raw", 100, 1024)])
    assert mixed.problem.startswith("no variant fits")


def test_an_unrecognized_filter_is_not_used(path):
    """Few values, or a saturated filter: an answer is not believed, in `probe` as little as in `verify`."""
    table = pa.table({"i": pa.array([1, 2, 3], pa.int64())})
    write_draft(path, table, ["i"], "murmur3+mask+raw")
    with parquet_bloom.open(path, variant="detect") as file:
        (chunk,) = file.chunks()
        assert chunk.header_problem is None
        assert "cannot be said" in chunk.problem
        with pytest.raises(errors.BrokenFilterError, match="row group 0, column 'i': its variant cannot be said"):
            _ = chunk.variant
        with pytest.raises(errors.BrokenFilterError):
            _ = chunk.filter
        probed = parquet_bloom.probe([chunk], [99])
        assert probed.maybe.tolist() == [[True]]
        assert "cannot be said" in probed.doubts[0]
        assert detect_variant(file) is None
    assert not parquet_bloom.verify(path, variant="detect").ok
    assert parquet_bloom.verify(path, data=True, variant="murmur3+mask+raw").ok


def test_column_chunks_without_values(path):
    """Their empty filters deny everything, whatever they are."""
    table = pa.table({"i": pa.array([None] * 10, pa.int64())})
    write_draft(path, table, ["i"], "murmur3+mask+raw")
    for variant in ("murmur3+mask+raw", "detect"):
        assert parquet_bloom.verify(path, data=True, variant=variant).ok
        with parquet_bloom.open(path, variant=variant) as file:
            assert parquet_bloom.probe(file.chunks(), [1]).maybe.tolist() == [[False]]
    surgery.without_statistics(path)  # only the pages show that there are none
    with parquet_bloom.open(path, variant="detect") as file:
        assert parquet_bloom.probe(file.chunks(), [1]).maybe.tolist() == [[True]]
    assert parquet_bloom.verify(path, data=True, variant="detect").ok


def test_a_filter_of_no_variant(path):
    """By a hash with another seed: it denies its own values whatever is tried."""
    table = make_table()
    pq.write_table(table, path, row_group_size=GROUP)
    filters = {}
    for group in range(2):
        bloom_filter = drafts.DraftFilter(1024, "murmur3+mask+raw")
        for plain in plain_values(table.slice(group * GROUP, GROUP)["i"]):
            bloom_filter.insert_hash(drafts.murmur3_x64_128(plain, 0)[0])
        filters[group, "i"] = bloom_filter.with_header()
    drafts.with_filters_in_chunks(path, filters)
    with parquet_bloom.open(path, variant="detect") as file:
        assert detect_variant(file) is None
        for chunk in file.chunks():
            assert chunk.problem == "no variant fits: under each, the filter denies values of its column"
        assert parquet_bloom.probe(file.chunks(), [2**40]).maybe.all()


def test_pages_that_cannot_be_read_tell_nothing(path):
    write(path, "murmur3+mask+raw")
    data = bytearray(path.read_bytes())
    with parquet_bloom.open(path) as file:
        first = int(file.footer.first_pages[file.leaf("i").index])
    data[first : first + 40] = b"\xff" * 40
    path.write_bytes(data)
    with parquet_bloom.open(path, variant="detect") as file:
        chunk = file.chunk(0, "i")
        assert chunk.variant_problem.startswith("its variant cannot be said: cannot be read")
        assert parquet_bloom.probe([chunk], [2**40]).maybe.all()
        with pytest.raises(errors.UnreadableColumnError):
            detect_variant(file)


# ---------------------------------------------------------------------------------------------------- broken


def test_raw_headers_that_are_wrong(path, counted):
    for numbers in (
        *((size, 0, 0) for size in (-1024, -(2**31), 0, 1000, 2048, 4096, 2**30, 2**31 - 32)),
        *((1024, 1, 0), (1024, 0, 7)),
    ):
        write(path, "murmur3+mask+raw", counted=counted)
        with parquet_bloom.open(path) as file:
            position = file.chunk(1, "s").offset
        data = bytearray(path.read_bytes())
        data[position : position + 12] = struct.pack("<iii", *numbers)
        path.write_bytes(data)
        for variant in ("murmur3+mask+raw", "detect"):
            with parquet_bloom.open(path, variant=variant) as file:
                with pytest.raises(errors.BrokenFilterError, match="row group 1, column 's': "):
                    file.filter(1, "s")
                probed = parquet_bloom.probe([file.chunk(1, "s")], ["nothing"])
                assert probed.maybe.all()
                assert probed.doubts[0]
                if not counted:
                    assert file.filter(0, "d").check([1 / 3]).all()
        assert parquet_bloom.read_table(path, f"s = 's{GROUP + 3}'").num_rows == 1


def test_a_filter_that_is_cut_short_by_its_length(path):
    write(path, "murmur3+mask+raw", lengths=True)
    assert parquet_bloom.verify(path, data=True, variant="murmur3+mask+raw").ok
    surgery.rewrite_footer(path, lambda f: oracle.column_metadata(f, 0, "i").set(oracle.LENGTH, oracle.I32, 11))
    with parquet_bloom.open(path, variant="murmur3+mask+raw") as file, pytest.raises(errors.BrokenFilterError):
        file.filter(0, "i")


def move(path: Path, row_group: int, column: str, by: int) -> None:
    """Have the footer point elsewhere."""

    def change(footer: oracle.Struct) -> None:
        metadata = oracle.column_metadata(footer, row_group, column)
        metadata.set(oracle.OFFSET, oracle.I64, metadata.value(oracle.OFFSET) + by)

    surgery.rewrite_footer(path, change)


@pytest.mark.parametrize("lengths", [False, True])
def test_offsets_inside_pages_are_refused(path, counted, lengths):
    """Though there is a header at them: bytes of pages can look like one."""
    name = "murmur3+mask+raw"
    table = make_table()
    fake = drafts.filled(name, 64, []).with_header()
    table = table.set_column(0, "i", pa.array([fake * 20] * table.num_rows, pa.binary()))
    write_draft(
        path,
        table,
        ["s", "d"],
        name,
        row_group_size=GROUP,
        counted=counted,
        lengths=lengths,
        compression="none",
        use_dictionary=False,
    )
    position = path.read_bytes().index(fake)
    with parquet_bloom.open(path, variant=name) as file:
        assert file.filter(1, "s").check(["s70"]).all()
        offset = file.chunk(0, "s").offset
    move(path, 0, "s", position - offset)
    for variant in (name, "detect"):
        with parquet_bloom.open(path, variant=variant) as file:
            with pytest.raises(errors.BrokenFilterError, match="inside pages"):
                file.filter(0, "s")
            assert parquet_bloom.probe(file.chunks(columns=["s"]), ["nothing"]).maybe[0].all()


def test_counted_filters_are_believed_all_together(path):
    """One that is elsewhere than the others say: no pages are taken to end before the footer says so."""
    for by in (-1, 1, 12, 32, -32):
        write(path, "murmur3+mask+raw", counted=True)
        assert parquet_bloom.verify(path, variant="murmur3+mask+raw").ok
        move(path, 1, "s", by)
        with parquet_bloom.open(path, variant="murmur3+mask+raw") as file:
            assert all(chunk.problem is not None for chunk in list(file.chunks())[1:])


@pytest.mark.parametrize("num_bytes", [64, 1 << 14])
def test_a_file_of_one_counted_filter(path, num_bytes):
    """Its pages seem to reach into the footer, or past the file's end."""
    table = pa.table({"i": pa.array(range(500), pa.int64())})
    write_draft(path, table, ["i"], "murmur3+mask+raw", row_group_size=500, num_bytes=num_bytes, counted=True)
    report = parquet_bloom.verify(path, data=True, variant="murmur3+mask+raw")
    assert [(chunk.problem, chunk.num_values) for chunk in report.chunks] == [(None, 500)]
    with parquet_bloom.open(path, variant="detect") as file:
        assert (file.chunk(0, "i").problem is None) == (num_bytes > 64)  # the small one is full


def test_a_gap_says_that_filters_were_not_counted(path):
    write(path, "murmur3+mask+raw", counted=True)

    def shrink(footer: oracle.Struct) -> None:
        metadata = oracle.column_metadata(footer, 0, "d")
        metadata.set(7, oracle.I64, metadata.value(7) - 1)

    surgery.rewrite_footer(path, shrink)
    with parquet_bloom.open(path, variant="murmur3+mask+raw") as file:
        assert "inside pages" in file.chunk(0, "s").problem


def test_filters_between_other_things(path):
    """Some columns with counted filters of other sizes, others with filters after all pages, others with none."""
    table = make_table(3)
    pq.write_table(table, path, row_group_size=GROUP, write_page_index=True)
    created = {}
    for group in range(3):
        for column, num_bytes in (("i", 4096), ("d", 64)):
            values = plain_values(table.slice(group * GROUP, GROUP)[column])
            created[group, column] = drafts.filled("murmur3+mask+raw", num_bytes, values).with_header()
    drafts.with_filters_in_chunks(path, created, counted=True)
    data, footer = path.read_bytes(), oracle.read_footer(path)
    body = data[: oracle.footer_start(data)]
    for group in range(3):
        oracle.column_metadata(footer, group, "s").set(oracle.OFFSET, oracle.I64, len(body))
        values = plain_values(table.slice(group * GROUP, GROUP)["s"])
        body += drafts.filled("murmur3+mask+raw", 256, values).with_header()
    path.write_bytes(oracle.with_footer(body, oracle.write_struct(footer)))
    report = parquet_bloom.verify(path, data=True, variant="murmur3+mask+raw")
    assert len(report.chunks) == 9
    assert report.problems == []

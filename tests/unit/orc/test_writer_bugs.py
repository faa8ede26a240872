"""Filters that lose rows are detected by their writer and answer "maybe"; each bug is shown on a file that has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as pa_orc
import pytest
from support.writers.orc_files import Parts, fields_of, message_of, patched, varint, with_fields, with_stripe_footer

import parquet_bloom.orc as orc
from parquet_bloom.core.hash.orc_murmur3 import hash_longs
from parquet_bloom.orc.orc_filters import OrcFilter, make_probes

ROWS = 900


def trusted_blindly(bloom_filter: OrcFilter, values: pa.Array) -> np.ndarray:
    """Return the answer of the filter's bits, without regard to their writer."""
    return make_probes(values, bloom_filter.leaf).answer(bloom_filter.check_hashes)


def filters(path: Path) -> list[OrcFilter]:
    with orc.open(path) as file:
        return list(file.filters())


def evidence(path: Path, column: str) -> list[Any]:
    with orc.open(path) as file:
        leaf = file.leaf(column)
        return [one for each in file.row_group_evidence([leaf], range(len(file.stripes))).values() for one in each]


def write(path: Path, values: pa.Array, **options: Any) -> Path:
    """A file of one stripe and one column by pyarrow, with a filter, not compressed."""
    settings = {"row_index_stride": 10_000, "bloom_filter_columns": [1], "compression": "uncompressed", **options}
    pa_orc.write_table(pa.table({"a": values}), path, **settings)
    return path


def assert_not_trusted(path: Path, why: str, values: pa.Array) -> OrcFilter:
    """It answers "maybe" to all, says why, is not used for pruning, and `verify` reports it."""
    (bloom_filter,) = filters(path)
    assert not bloom_filter.trusted
    assert bloom_filter.doubt is not None
    assert why in bloom_filter.doubt
    assert bloom_filter.check(values).all()
    assert bloom_filter.check(["of another kind"]).all()
    (statistics,) = evidence(path, "a")
    assert not statistics.filtered
    assert why in statistics.doubt
    (verdict,) = orc.verify(path).chunks
    assert verdict.problem is None
    assert verdict.note is not None
    assert why in verdict.note
    return bloom_filter


@pytest.mark.parametrize("kind", [pa.int8(), pa.bool_()])
def test_small_types_by_pyarrow(kind: pa.DataType, tmp_path: Path) -> None:
    """Numbers of a byte are overwritten before they are hashed."""
    draw = np.random.default_rng(4)
    values = pa.array(draw.integers(-128, 128, ROWS), pa.int8()) if kind == pa.int8() else pa.array([False, True])
    path = write(tmp_path / "a.orc", values)
    result = assert_not_trusted(path, "tinyint" if kind == pa.int8() else "boolean", values)
    if kind == pa.int8():
        lost = ~trusted_blindly(result, values)
        assert lost.any()
        (verdict,) = orc.verify(path, data=True).chunks
        assert verdict.num_missing == lost.sum()
        assert verdict.problem is not None
        assert "hashes other numbers" in verdict.problem
    else:
        assert not (result.check_hashes(_hash_of_long(0)) & result.check_hashes(_hash_of_long(1))).all()


def _hash_of_long(value: int) -> np.ndarray:
    return hash_longs(np.array([value], np.int64))


def _write_pyorc(path: Path, kind: str, values: list[Any]) -> Path:
    pyorc = pytest.importorskip("pyorc")
    with (
        path.open("wb") as stream,
        pyorc.Writer(
            stream, f"struct<a:{kind}>", bloom_filter_columns=["a"], compression=pyorc.CompressionKind.NONE
        ) as writer,
    ):
        for value in values:
            writer.write((value,))
    return path


def test_small_types_by_pyorc(tmp_path: Path) -> None:
    draw = np.random.default_rng(4)
    numbers = draw.integers(-128, 128, 100).tolist()
    values = pa.array(numbers, pa.int8())
    path = _write_pyorc(tmp_path / "a.orc", "tinyint", numbers)
    result = assert_not_trusted(path, "tinyint", values)
    assert not trusted_blindly(result, values).all()


def test_char_by_pyorc(tmp_path: Path) -> None:
    """Texts that are shorter than the column are hashed with the bytes after them in memory."""
    texts = [f"t{i}" for i in range(50)]
    path = _write_pyorc(tmp_path / "a.orc", "char(9)", texts)
    result = assert_not_trusted(path, "char", pa.array(texts))
    assert result.leaf.column_type.name == "char(9)"
    assert not trusted_blindly(result, pa.array(texts)).all()
    (statistics,) = evidence(path, "a")
    assert statistics.low is None
    assert statistics.high is None


@pytest.mark.parametrize("name", ["bad_bloom_filter_1.6.0.orc", "bad_bloom_filter_1.6.11.orc"])
def test_old_releases_of_cpp(name: str, corpus: Path) -> None:
    """Negative numbers, and those whose hash is negative on the way, are lost."""
    path = corpus / name
    table = pa_orc.read_table(path)
    ids, names = filters(path)
    values = table["id"].combine_chunks()
    assert not ids.trusted
    assert ids.check(values).all()
    assert not trusted_blindly(ids, values).all()
    assert not names.trusted
    report = orc.verify(path, data=True)
    assert [chunk.problem is None for chunk in report.chunks] == [False, True]


def test_releases_of_cpp(tmp_path: Path) -> None:
    values = pa.array(range(ROWS))
    path = write(tmp_path / "a.orc", values)
    bad = [None, b"1.6.11", b"1.6.12-SNAPSHOT", b"1.5.12", b"1.7.0", b"1.7.0-SNAPSHOT", b"nightly", b"", b"\xff\xfe"]
    for version in bad:
        assert_not_trusted(patched(path, tmp_path / "b.orc", {12: version}), "in a non-standard way", values)
    for version in (b"1.6.12", b"1.6.13-SNAPSHOT", b"1.7.1", b"1.10.0", b"2.2.2", b"2.3.0-SNAPSHOT"):
        changed = patched(path, tmp_path / "b.orc", {12: version})
        (bloom_filter,) = filters(changed)
        assert bloom_filter.trusted
        assert bloom_filter.check(values).all()
        assert not bloom_filter.check(pa.array(range(10_000, 11_000))).all()
        assert orc.verify(changed, data=True).ok


def test_writers(tmp_path: Path) -> None:
    values = pa.array(range(ROWS))
    path = write(tmp_path / "a.orc", values)
    for writer, name, good in (
        *((0, "java", True), (1, "c++", True), (2, "presto", True), (3, "go", False), (4, "trino", True)),
        *((5, "cudf", False), (99, "unknown 99", False), (None, "java", True)),
    ):
        changed = patched(path, tmp_path / "b.orc", {9: writer})
        with orc.open(changed) as file:
            assert file.writer == name
        if good:
            assert filters(changed)[0].trusted
        else:
            assert_not_trusted(changed, "not known", values)


def test_booleans_of_every_writer(tmp_path: Path) -> None:
    values = pa.array([True] * 9)
    path = write(tmp_path / "a.orc", values)
    for writer in range(5):
        assert not filters(patched(path, tmp_path / "b.orc", {9: writer}))[0].trusted


def _without_encoding(footer: bytes) -> bytes:
    fields = fields_of(footer)
    return message_of((n, w, with_fields(v, {3: None}) if n == 2 else v) for n, w, v in fields)  # type: ignore[arg-type]


def test_timestamps_that_do_not_say_how(tmp_path: Path) -> None:
    values = pa.array([10**18 + i * 10**12 for i in range(ROWS)], pa.timestamp("ns"))
    path = write(tmp_path / "a.orc", values)
    assert filters(path)[0].trusted
    changed = with_stripe_footer(path, tmp_path / "b.orc", _without_encoding)
    assert_not_trusted(changed, "how the filter's timestamps are encoded", values)


def _in_zone(zone: bytes) -> Any:
    return lambda footer: with_fields(footer, {3: zone})


def test_wall_clocks_before_1900(tmp_path: Path) -> None:
    """Their writer and their reader may not agree on what the clock showed."""
    old, new = -3 * 10**18, -2 * 10**18
    for first, zone, good in (
        (old, b"GMT", True),
        (old, b"Asia/Tokyo", False),
        (old, b"", False),
        (new, b"Asia/Tokyo", True),
    ):
        values = pa.array([first, 10**18], pa.timestamp("ns"))
        written = write(tmp_path / "a.orc", values)
        path = with_stripe_footer(written, tmp_path / "b.orc", lambda footer, zone=zone: with_fields(footer, {3: zone}))
        if good:
            assert filters(path)[0].trusted
            assert evidence(path, "a")[0].filtered
        else:
            assert_not_trusted(path, "before 1900", values)


def test_filters_of_the_first_kind(tmp_path: Path) -> None:
    """Java's are read where they are sound: numbers always, texts from HIVE-12055 on, decimals and timestamps never."""

    def _as_first_kind(path: Path, target: Path) -> Path:
        """A copy whose filters are of the first kind: their bits in words, in a stream that says so."""
        data = path.read_bytes()
        bloom_filter = filters(path)

        def words(one: OrcFilter) -> bytes:
            bits = bytes(one.bitset)
            fields = [(2, 1, bits[i : i + 8]) for i in range(0, len(bits), 8)]
            return message_of([(1, 0, one.num_hash_functions), *fields])

        stream = message_of((1, 2, words(one)) for one in bloom_filter)
        with orc.open(path) as file:
            (stripe,) = file.stripes
            leaf = file.leaf("a")
            file.filters_of(leaf, 0)
            at, length = file._indexes._footers[0].streams[8, leaf.column_id]  # type: ignore[union-attr]

        def renamed(message: bytes) -> bytes:
            changed = []
            for number, wire, value in fields_of(message):
                if number == 1 and isinstance(value, bytes):
                    declared = {n: v for n, _, v in fields_of(value)}
                    if declared[1] == 8:
                        value = with_fields(value, {1: 7, 3: len(stream)})
                changed.append((number, wire, value))
            return message_of(changed)

        grown = len(stream) - length
        path = target.with_suffix(".tmp")
        parts = Parts(data)  # the stripe grows before its footer is looked for
        parts.before = parts.before[:at] + stream + parts.before[at + length :]
        changes = {2: stripe.index_length + grown}
        stripe_message = next(v for n, _, v in fields_of(parts.footer) if n == 3)
        assert isinstance(stripe_message, bytes)
        new_footer = message_of(
            (n, w, with_fields(stripe_message, changes) if n == 3 else v) for n, w, v in fields_of(parts.footer)
        )
        path.write_bytes(parts.together(new_footer))
        return with_stripe_footer(path, target, renamed)

    numbers, texts = pa.array(range(ROWS)), pa.array([f"t{i}" for i in range(ROWS)])
    for values in (numbers, texts):
        path = _as_first_kind(write(tmp_path / "a.orc", values), tmp_path / "b.orc")
        assert_not_trusted(path, "what filters of this kind hold is not known", values)  # C++ never wrote them
        java = patched(path, tmp_path / "c.orc", {9: 0}, {6: 3})
        (bloom_filter,) = filters(java)
        assert bloom_filter.kind == "BLOOM_FILTER"
        assert bloom_filter.trusted
        assert bloom_filter.check(values).all()
        assert (
            bloom_filter.check(
                pa.array([str(i) for i in range(9_000)]) if values is texts else pa.array(range(10**6, 10**6 + 999))
            ).mean()
            < 0.3
        )
        old = patched(path, tmp_path / "d.orc", {9: 0}, {6: 2})
        if values is texts:
            assert_not_trusted(old, "only its writer knew", values)
        else:
            assert filters(old)[0].trusted
    moments = pa.array([10**18 + i * 10**12 for i in range(ROWS)], pa.timestamp("ns"))
    decimals = pa.array(range(ROWS), pa.int64()).cast(pa.decimal128(21, 2))
    for values, why in ((moments, "unknown zone"), (decimals, "of this kind")):
        path = _as_first_kind(write(tmp_path / "a.orc", values), tmp_path / "b.orc")
        assert_not_trusted(patched(path, tmp_path / "c.orc", {9: 0}, {6: 9}), why, values)


def test_filters_of_hive_before_its_release(corpus: Path) -> None:
    path = corpus / "over1k_bloom.orc"
    table = pa_orc.read_table(path)
    bloom_filter = filters(path)
    assert len(bloom_filter) == 20
    for one in bloom_filter:
        assert not one.trusted
        assert "before its release" in str(one.doubt)
        assert one.check(table[one.column]).all()
        assert one.num_bits == 0
    assert not orc.verify(path).ok


def test_filters_whose_bytes_are_wrong(tmp_path: Path) -> None:
    values, word, functions = pa.array([5, 6]), b"\x01" + bytes(7), (1, 0, 7)
    for fields, why in (
        *(([functions], "0 bits"), ([functions, (3, 2, b"")], "0 bits"), ([functions, (3, 2, b"abc")], "24 bits")),
        ([(3, 2, word)], "None hash functions"),
        *(([(1, 0, count), (3, 2, word)], f"{count} hash functions") for count in (0, 256)),
        ([(1, 0, (1 << 64) - 1), (3, 2, word)], "hash functions"),
        *(([functions, (2, 1, word), *more], "another kind") for more in ([], [(3, 2, word)])),
        ([(1, 0, 10_000), (2, 1, word), (3, 0, 5)], "before its release"),
        ([functions, (3, 2, bytes(8))], "no bit is set"),
        (None, "cut off"),
    ):
        message = b"\x08" if fields is None else message_of(fields)
        path = write(tmp_path / "a.orc", values)
        with orc.open(path) as file:
            leaf = file.leaf("a")
            file.filters_of(leaf, 0)
            at, length = file._indexes._footers[0].streams[8, leaf.column_id]  # type: ignore[union-attr]
        entry = b"\x0a" + varint(len(message)) + message
        rest = length - len(entry)
        assert rest > 4
        padding = b"\x7a" + (varint(rest - 2) if rest - 2 < 128 else varint(rest - 3))
        data = bytearray(path.read_bytes())
        data[at : at + length] = entry + padding + bytes(rest - len(padding))
        path.write_bytes(data)
        (bloom_filter,) = filters(path)
        assert bloom_filter.problem is not None
        assert why in bloom_filter.problem
        assert bloom_filter.check(values).all()
        assert bloom_filter.check_hashes(np.array([1], np.uint64)).all() or bloom_filter.num_bits
        (verdict,) = orc.verify(path, data=True).chunks
        assert verdict.problem == bloom_filter.problem

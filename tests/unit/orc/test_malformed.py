"""ORC files that are truncated, changed or forged: a named error, never a crash or a huge allocation."""

from __future__ import annotations

import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as pa_orc
import pytest
from support.writers.orc_files import (
    Parts,
    fields_of,
    message_of,
    patched,
    with_fields,
    with_stripe_footer,
)

import parquet_bloom.orc as orc
from parquet_bloom.errors import EncryptedFileError, MalformedOrcError, NotOrcError, ParquetBloomError
from parquet_bloom.storage import open_source


def write(path: Path, compression: str) -> Path:
    """A file of a few columns."""
    table = pa.table({"i": range(40), "t": [f"t{i}" for i in range(40)], "d": [i / 7 for i in range(40)]})
    options = {"row_index_stride": 16, "bloom_filter_columns": [1, 2], "bloom_filter_fpp": 0.5}
    pa_orc.write_table(table, path, compression=compression, **options)
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that is not compressed."""
    return write(tmp_path_factory.mktemp("small") / "a.orc", "uncompressed")


def read_metadata(path: Path) -> bool:
    """Read all that there is of a file's metadata; whether it was a file at all."""
    with open_source(path) as source:
        is_orc = orc.is_orc(source)
    try:
        file = orc.open(path)
    except ParquetBloomError as error:
        message = str(error)
    else:
        message = ""
    if message:
        assert str(path) in message
        assert "\n" not in message
        return False
    assert is_orc
    with file:
        stripes = range(len(file.stripes))
        try:
            for leaf in file.leaves:
                assert len(file.stripe_statistics(leaf)) == len(stripes)
                for number in stripes:
                    for one in file.filters_of(leaf, number):
                        assert one is None or one.check([None]).all()
                        assert one is None or len(one.check_hashes(np.array([1, 2], np.uint64))) == 2
            file.row_group_evidence(file.leaves, stripes)
        except ParquetBloomError:
            return False
    try:
        orc.verify(path)
    except ParquetBloomError:
        return False
    return True


@pytest.mark.parametrize("compression", ["uncompressed", "zstd"])
def test_cut_anywhere(compression: str, tmp_path: Path) -> None:
    path = write(tmp_path / "cut.orc", compression)
    data = path.read_bytes()
    assert read_metadata(path)
    for length in (*range(8), *range(len(data) - 500, len(data) - 60, 5), *range(len(data) - 60, len(data))):
        path.write_bytes(data[:length])
        with pytest.raises(ParquetBloomError):
            orc.open(path).close()
        read_metadata(path)


def test_invalid_orc_files(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    for data in (
        *(b"", b"O", b"ORC", b"\x00", b"PAR1" * 9, b"ORC\x03", b"x" * 300, b"\xff" * 300, b"x" * 300 + b"ORC\x00"),
    ):
        path.write_bytes(data)
        with open_source(path) as source:
            assert not orc.is_orc(source)
        with pytest.raises(NotOrcError, match="not an ORC file"):
            orc.open(path)


def test_a_postscript_of_255_bytes(small: Path, tmp_path: Path) -> None:
    parts = Parts(small.read_bytes())
    fill = 255 - len(with_fields(parts.postscript, {1: len(parts.footer)})) - 2
    path = patched(small, tmp_path / "a.orc", postscript={15: b"x" * (fill - (fill > 127))})
    assert path.read_bytes()[-1] == 255
    assert read_metadata(path)


HUGE = (1 << 64) - 1


def test_lengths_and_compression_in_the_postscript(small: Path, tmp_path: Path) -> None:
    path, parts = tmp_path / "a.orc", Parts(small.read_bytes())
    for field in (1, 5):
        for value in (HUGE, 1 << 63, 1 << 31, 1 << 20):
            tail = with_fields(parts.postscript, {field: value})
            path.write_bytes(parts.before + parts.footer + tail + bytes([len(tail)]))
            with pytest.raises(MalformedOrcError, match="the postscript states"):
                orc.open(path)
    for postscript, problem in (
        *(({2: 6}, "unknown compression 6"), ({2: HUGE}, "unknown compression")),
        *(({2: 1, 3: size}, "chunks of") for size in (HUGE, 0)),
    ):
        with pytest.raises(MalformedOrcError, match=problem):
            orc.open(patched(small, path, postscript=postscript))


def test_stripes_outside_of_the_file_or_with_other_rows(small: Path, tmp_path: Path) -> None:

    def _stripe(small: Path, tmp_path: Path, total: int | None = None, **changes: int) -> Path:
        numbers = {"offset": 1, "index": 2, "data": 3, "footer": 4, "rows": 5}
        parts = Parts(small.read_bytes())
        stripe = next(v for n, _, v in fields_of(parts.footer) if n == 3)
        assert isinstance(stripe, bytes)
        stripe = with_fields(stripe, {numbers[name]: value for name, value in changes.items()})
        footer = message_of((n, w, stripe if n == 3 else v) for n, w, v in fields_of(parts.footer))
        path = tmp_path / "a.orc"
        path.write_bytes(parts.together(footer if total is None else with_fields(footer, {6: total})))
        return path

    for name in ("offset", "index", "data", "footer"):
        for value in (HUGE, 1 << 63, 1 << 40, 1 << 20):
            with pytest.raises(MalformedOrcError, match="extends beyond byte"):
                orc.open(_stripe(small, tmp_path, **{name: value}))
    for rows in (HUGE, 1 << 63, 1 << 40, 39, 41):
        with pytest.raises(MalformedOrcError, match="the stripes have"):
            orc.open(_stripe(small, tmp_path, rows=rows))
        path = _stripe(small, tmp_path, total=rows, rows=rows)
        if rows < 1 << 30:
            assert read_metadata(path)  # one row more or less is not seen in the indexes
            continue
        match = "the stripes have" if rows > 1 << 62 else "row groups are not supported"
        with pytest.raises(MalformedOrcError, match=match):
            orc.open(path)


def test_strides_that_are_not_the_indexes(small: Path, tmp_path: Path) -> None:
    """With another number of row groups than indexes have entries, nothing is known, and it is said."""
    for stride in (1, 15, 17, 1 << 31, HUGE):
        path = patched(small, tmp_path / "a.orc", {8: stride})
        with orc.open(path) as file:
            leaf = file.leaf("i")
            statistics = file.row_group_evidence([leaf], [0])[0, leaf.column_id]
            assert len(statistics) == len(file.row_groups)
            if len(file.row_groups) != 3:
                assert all(one.low is None and "entries for" in str(one.doubt) for one in statistics)
                for one in file.filters_of(leaf, 0):
                    assert one is not None
                    assert "filters for" in str(one.doubt)
                    assert one.check([-5]).all()


def test_a_file_without_row_index(tmp_path: Path) -> None:
    pyorc = pytest.importorskip("pyorc")
    path = tmp_path / "a.orc"
    with path.open("wb") as stream, pyorc.Writer(stream, "struct<a:bigint>", row_index_stride=0) as writer:
        for i in range(50):
            writer.write((i,))
    with orc.open(path) as file:
        assert [(one.row_group, one.num_rows) for one in file.row_groups] == [(0, 50)]
        leaf = file.leaf("a")
        (statistics,) = file.row_group_evidence([leaf], [0])[0, leaf.column_id]
        assert statistics.low is None
        assert not statistics.filtered
        assert statistics.doubt is None
        assert file.filters_of(leaf, 0) == [None]
        assert list(file.filters()) == []
        (stripe,) = file.stripe_statistics(leaf)
        assert (stripe.low, stripe.high) == (0, 49)


def test_an_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "a.orc"
    pa_orc.write_table(pa.table({"a": pa.array([], pa.int64())}), path, bloom_filter_columns=[1])
    with orc.open(path) as file:
        assert (file.num_rows, file.row_groups, file.columns) == (0, [], ["a"])
        assert list(file.filters()) == []
    assert orc.verify(path, data=True).ok


def test_stripe_footers(small: Path, tmp_path: Path) -> None:
    def streams(changes: dict[int, int]) -> Any:
        return lambda message: message_of(
            (n, w, with_fields(v, changes) if n == 1 else v) for n, w, v in fields_of(message)
        )

    for change, problem in (
        *((streams({3: length}), "longer than the stripe") for length in (HUGE, 1 << 40)),
        (streams({1: 6, 2: 1, 3: 0}), "two streams 6"),
        *((lambda message: b"\x0a\xff", "cut off"), (lambda message: b"\x0b", "group")),
    ):
        path = with_stripe_footer(small, tmp_path / "a.orc", change)
        with orc.open(path) as file:
            leaf = file.leaf("i")
            statistics = file.row_group_evidence([leaf], [0])[0, leaf.column_id]
            assert all(one.low is None and problem in str(one.doubt) for one in statistics)
            assert file.filters_of(leaf, 0) == [None] * 3
        read_metadata(path)


def _type(kind: int, *children: int, names: tuple[bytes, ...] = ()) -> bytes:
    return message_of([(1, 0, kind), *((2, 0, child) for child in children), *((3, 2, name) for name in names)])


def test_types_that_are_not_a_tree(small: Path, tmp_path: Path) -> None:
    parts, path = Parts(small.read_bytes()), tmp_path / "a.orc"
    others = [field for field in fields_of(parts.footer) if field[0] != 4]
    long, deep = _type(4), [*(_type(12, i + 1, names=(b"a",)) for i in range(5_000)), _type(4)]
    for types in (
        [_type(12, 0, names=(b"a",))],
        [_type(12, 1, 1, names=(b"a", b"b")), long],
        [_type(12, 1, names=(b"a",)), _type(10, 0)],
        *([_type(12, child, names=(b"a",)), long] for child in (5, HUGE)),
        [_type(12, 1), long],
        [_type(12, 1, names=(b"a",)), _type(4, 2), long],
        [_type(12, 1, names=(b"a",)), _type(11, 2), long],
        deep,
    ):
        path.write_bytes(parts.together(message_of([*others, *((4, 2, one) for one in types)])))
        with pytest.raises(MalformedOrcError, match="not form a tree" if types is deep else "type"):
            orc.open(path)


def test_encrypted_files(small: Path, tmp_path: Path) -> None:
    with pytest.raises(EncryptedFileError, match=r"b\.orc: columns of the file are encrypted"):
        orc.open(patched(small, tmp_path / "b.orc", {10: b""}))
    path = with_stripe_footer(small, tmp_path / "c.orc", lambda message: message + b"\x22\x00")
    with orc.open(path) as file, pytest.raises(EncryptedFileError, match="stripe 0 are encrypted"):
        list(file.filters())


def test_statistics_of_stripes_that_cannot_be_read(small: Path, tmp_path: Path) -> None:
    parts = Parts(small.read_bytes())
    start = len(parts.before) - parts.metadata_length
    path = tmp_path / "a.orc"
    for metadata in (
        b"\x0b" * parts.metadata_length,
        b"\x0a\xff" + bytes(parts.metadata_length - 2),
        bytes(parts.metadata_length),
    ):
        parts.before = parts.before[:start] + metadata
        path.write_bytes(parts.together())
        with orc.open(path) as file:
            (statistics,) = file.stripe_statistics(file.leaf("i"))
            assert statistics.low is None
            assert statistics.has_values is None
            assert statistics.doubt is not None
    parts = Parts(small.read_bytes())
    parts.before = parts.before[:start]
    path.write_bytes(parts.together(postscript={5: 0}))
    with orc.open(path) as file:
        assert file.stripe_statistics(file.leaf("i"))[0].doubt is None


def test_a_footer_that_would_grow_without_end(tmp_path: Path) -> None:
    """Memory for a file of some kilobytes is limited."""
    packer = zlib.compressobj(wbits=-15)
    chunk = packer.compress(bytes(1 << 18)) + packer.flush()
    stream = ((len(chunk) << 1).to_bytes(3, "little") + chunk) * 2_000
    tail = message_of([(1, 0, len(stream)), (2, 0, 1), (3, 0, 1 << 18), (8000, 2, b"ORC")])
    path = tmp_path / "a.orc"
    path.write_bytes(b"ORC" + stream + tail + bytes([len(tail)]))
    tracemalloc.start()
    try:
        with pytest.raises(MalformedOrcError):
            orc.open(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 30
    finally:
        tracemalloc.stop()

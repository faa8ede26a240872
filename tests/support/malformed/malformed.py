"""Broken filters of every sort, built from a good file: what a reader must doubt, and never lose a row over.

The file that they are made of has three row groups and filters on ``key`` and ``other`` in each. A case breaks the
filter of ``key`` in the row group `BROKEN` (two break one more); rows of all row groups must be found all the same.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from support.oracle import oracle
from support.oracle.oracle import OracleFilter

ROWS_PER_GROUP = 60
GROUPS = 3
BROKEN = 1
COLUMN = "key"


@dataclass(frozen=True)
class Case:
    """A file with a broken filter.

    Attributes
    ----------
    name : what is wrong, in a word or three.
    path : the file.
    expected_kind : words, one of which a report on the filter has to use; empty when the filter is not broken at all,
        only unusual, and is to be used as it is.
    row_groups : those whose filter is broken.
    """

    name: str
    path: Path
    expected_kind: tuple[str, ...]
    row_groups: tuple[int, ...] = (BROKEN,)

    def __str__(self) -> str:
        return self.name


def good_file(path: Path) -> Path:
    """A file with filters by pyarrow, without dictionaries; keys lie between the extremes that every row group has."""
    pq.write_table(
        good_table(),
        path,
        row_group_size=ROWS_PER_GROUP,
        use_dictionary=False,
        compression="none",
        bloom_filter_options={name: {"ndv": 2 * ROWS_PER_GROUP, "fpp": 0.001} for name in ("key", "other")},
    )
    return path


def good_table() -> pa.Table:
    keys: list[int] = []
    for group in range(GROUPS):
        rng = random.Random(group)
        keys += [-(2**62), 2**62] + [rng.randint(-(2**61), 2**61) for _ in range(ROWS_PER_GROUP - 2)]
    return pa.table({"key": keys, "other": [f"{key:x}" for key in keys], "row": range(len(keys))})


def needles() -> list[tuple[int, int]]:
    """Row group and key of some rows: two of each row group, between the minimum and the maximum."""
    keys = good_table()["key"].to_pylist()
    return [(group, keys[group * ROWS_PER_GROUP + i]) for group in range(GROUPS) for i in (2, ROWS_PER_GROUP - 1)]


# ------------------------------------------------------------------------------------------------------------
# Surgery
# ------------------------------------------------------------------------------------------------------------


class Patient:
    """A good file taken apart: the bytes before the footer, and the footer."""

    def __init__(self, path: Path):
        data = path.read_bytes()
        self.body = bytearray(data[: oracle.footer_start(data)])
        self.footer = oracle.read_footer(path)
        self.filters = oracle.filters(path)

    @property
    def filter(self) -> oracle.StoredFilter:
        return self.filters[BROKEN, COLUMN]

    @property
    def metadata(self) -> oracle.Struct:
        return oracle.column_metadata(self.footer, BROKEN, COLUMN)

    def point(self, offset: int, length: int | None) -> None:
        """Let the chunk point to another offset for its filter."""
        self.metadata.set(oracle.OFFSET, oracle.I64, offset)
        if length is None:
            self.metadata.pop(oracle.LENGTH, None)
        else:
            self.metadata.set(oracle.LENGTH, oracle.I32, length)

    def replace(self, header: oracle.Struct | bytes, bitset: bytes | None = None, length: int | None = -1) -> None:
        """Put another filter after all others and point to it; ``length`` -1: the true one, None: leave it out."""
        head = header if isinstance(header, bytes) else oracle.write_struct(header)
        stored = head + (self.filter.bitset if bitset is None else bitset)
        offset = len(self.body)
        self.body += stored
        self.point(offset, len(stored) if length == -1 else length)

    def save(self, path: Path) -> None:
        path.write_bytes(oracle.with_footer(bytes(self.body), oracle.write_struct(self.footer)))


def _length(change: Callable[[oracle.StoredFilter], int | None]) -> Callable[[Patient], None]:
    return lambda patient: patient.point(patient.filter.offset, change(patient.filter))


def _offset(choose: Callable[[Patient], int], keep_length: bool = True) -> Callable[[Patient], None]:
    return lambda patient: patient.point(choose(patient), patient.filter.length if keep_length else None)


def _header(**fields: int) -> Callable[[Patient], None]:
    def change(patient: Patient) -> None:
        stored = patient.filter
        numbers = {"num_bytes": len(stored.bitset)} | fields
        patient.replace(oracle.filter_header(**numbers))

    return change


def _without_field(field_id: int) -> Callable[[Patient], None]:
    def change(patient: Patient) -> None:
        header = oracle.filter_header(len(patient.filter.bitset))
        del header[field_id]
        patient.replace(header)

    return change


def _num_bytes(number: int, length: int | None = -1) -> Callable[[Patient], None]:
    return lambda patient: patient.replace(oracle.filter_header(number), length=length)


def _first_page(patient: Patient) -> int:
    return patient.metadata.value(9)  # data_page_offset


def _odd_but_good(patient: Patient) -> None:
    """A bitset of whole blocks and some bytes more, as Spark writes it."""
    keys = good_table()["key"].to_pylist()[BROKEN * ROWS_PER_GROUP : (BROKEN + 1) * ROWS_PER_GROUP]
    num_bytes = len(patient.filter.bitset) + 8
    bitset = OracleFilter.of(num_bytes, [oracle.plain_encode(key, "INT64") for key in keys]).to_bytes()
    patient.replace(oracle.filter_header(num_bytes), bitset)


def _unknown_header_field(patient: Patient) -> None:
    header = oracle.filter_header(len(patient.filter.bitset))
    header.set(9, oracle.BINARY, b"from the future")
    patient.replace(header)


def _truncated_header(patient: Patient) -> None:
    """The header's first bytes, then the footer."""
    patient.replace(oracle.write_struct(patient.filter.header)[:6], b"")


def _over_the_footer(patient: Patient) -> None:
    """A filter whose second half would be the footer."""
    half = patient.filter.bitset[: len(patient.filter.bitset) // 2]
    header = oracle.write_struct(patient.filter.header)
    patient.replace(header, half, length=len(header) + len(patient.filter.bitset))


def _garbage(patient: Patient) -> None:
    offset = len(patient.body)
    patient.body += random.Random(5).randbytes(300)
    patient.point(offset, 100)


def _shared_with_column(patient: Patient) -> None:
    theirs = patient.filters[BROKEN, "other"]
    patient.point(theirs.offset, theirs.length)


def _shared_with_row_group(patient: Patient) -> None:
    theirs = patient.filters[0, COLUMN]
    patient.point(theirs.offset, theirs.length)


def _inside_another(patient: Patient) -> None:
    """A filter that begins within another filter's bitset, whose bits happen to look like a header."""
    theirs = patient.filters[BROKEN, "other"]
    stored = oracle.write_struct(oracle.filter_header(64)) + OracleFilter.of(64, [b"another value"]).to_bytes()
    start = theirs.offset + theirs.header_size + 32
    patient.body[start : start + len(stored)] = stored
    patient.point(start, len(stored))


def _over_pages(patient: Patient) -> None:
    """A filter among the data pages, whose values happen to look like one: those of a column that no test reads."""
    stored = oracle.write_struct(oracle.filter_header(64)) + OracleFilter.of(64, [b"another value"]).to_bytes()
    start = oracle.column_metadata(patient.footer, 0, "row").value(9) + 200
    patient.body[start : start + len(stored)] = stored
    patient.point(start, len(stored))


def _empty(patient: Patient) -> None:
    patient.replace(patient.filter.header, bytes(len(patient.filter.bitset)))


OFFSETS = ("offset", "lies", "end", "outside", "footer", "range", "beyond", "before", "pages")
LENGTHS = ("length", "long", "short", "bytes", "end", "says")
HEADERS = ("header", "thrift", "truncated", "end", "footer", "read", "bytes")
SIZES = ("bytes", "numbytes", "num_bytes", "size", "block")
SHARED = ("share", "overlap", "same", "also", "another", "other")

CASES: list[tuple[str, Callable[[Patient], None], tuple[str, ...], tuple[int, ...]]] = [
    ("length-too-short-by-a-block", _length(lambda f: f.length - 32), LENGTHS, (BROKEN,)),
    ("length-too-short-by-a-byte", _length(lambda f: f.length - 1), LENGTHS, (BROKEN,)),
    ("length-of-the-header-alone", _length(lambda f: f.header_size), LENGTHS, (BROKEN,)),
    ("length-less-than-the-header", _length(lambda f: 3), LENGTHS, (BROKEN,)),
    ("length-without-the-header", _length(lambda f: len(f.bitset)), LENGTHS, (BROKEN,)),
    ("length-too-long-by-a-block", _length(lambda f: f.length + 32), LENGTHS, (BROKEN,)),
    ("length-too-long-by-a-byte", _length(lambda f: f.length + 1), LENGTHS, (BROKEN,)),
    ("length-past-the-end", _length(lambda f: 1 << 30), LENGTHS, (BROKEN,)),
    ("length-zero", _length(lambda f: 0), LENGTHS, (BROKEN,)),
    ("length-negative", _length(lambda f: -(f.length or 0)), LENGTHS, (BROKEN,)),
    ("length-absent", _length(lambda f: None), (), ()),
    ("algorithm-unknown", _header(algorithm=2), ("algorithm",), (BROKEN,)),
    ("algorithm-absent", _without_field(2), ("algorithm",), (BROKEN,)),
    ("hash-unknown", _header(hash_function=2), ("hash",), (BROKEN,)),
    ("hash-absent", _without_field(3), ("hash",), (BROKEN,)),
    ("compression-unknown", _header(compression=2), ("compress",), (BROKEN,)),
    ("compression-absent", _without_field(4), ("compress",), (BROKEN,)),
    ("num-bytes-absent", _without_field(1), SIZES, (BROKEN,)),
    ("num-bytes-zero", _num_bytes(0), SIZES, (BROKEN,)),
    ("num-bytes-zero-without-length", _num_bytes(0, None), SIZES, (BROKEN,)),
    ("num-bytes-negative", _num_bytes(-32), SIZES, (BROKEN,)),
    ("num-bytes-negative-without-length", _num_bytes(-32, None), SIZES, (BROKEN,)),
    ("num-bytes-huge", _num_bytes(2**31 - 32), SIZES, (BROKEN,)),
    ("num-bytes-huge-without-length", _num_bytes(2**31 - 32, None), SIZES, (BROKEN,)),
    ("num-bytes-half-a-block", _num_bytes(16), SIZES, (BROKEN,)),
    ("num-bytes-no-multiple-of-32", _num_bytes(100), SIZES, (BROKEN,)),
    ("num-bytes-odd-but-good", _odd_but_good, (), ()),
    ("header-with-a-field-from-the-future", _unknown_header_field, (), ()),
    ("header-truncated", _truncated_header, HEADERS, (BROKEN,)),
    ("offset-past-the-end", _offset(lambda p: 1 << 40), OFFSETS, (BROKEN,)),
    ("offset-past-the-end-without-length", _offset(lambda p: 1 << 40, False), OFFSETS, (BROKEN,)),
    ("offset-at-the-footer", _offset(lambda p: len(p.body)), OFFSETS, (BROKEN,)),
    ("offset-at-the-footer-without-length", _offset(lambda p: len(p.body), False), OFFSETS, (BROKEN,)),
    ("offset-zero", _offset(lambda p: 0), OFFSETS + HEADERS, (BROKEN,)),
    ("offset-negative", _offset(lambda p: -4), OFFSETS, (BROKEN,)),
    ("offset-negative-without-length", _offset(lambda p: -(1 << 62), False), OFFSETS, (BROKEN,)),
    ("offset-into-data-pages", _offset(_first_page), OFFSETS + HEADERS + SHARED, (BROKEN,)),
    ("offset-into-data-pages-without-length", _offset(_first_page, False), OFFSETS + HEADERS + SHARED, (BROKEN,)),
    ("offset-into-its-bitset", _offset(lambda p: p.filter.offset + 40), OFFSETS + HEADERS, (BROKEN,)),
    ("offset-into-garbage", _garbage, HEADERS + OFFSETS, (BROKEN,)),
    ("overlaps-the-footer", _over_the_footer, OFFSETS + LENGTHS, (BROKEN,)),
    ("overlaps-data-pages", _over_pages, SHARED + OFFSETS, (BROKEN,)),
    ("overlaps-another-filter", _inside_another, SHARED, (BROKEN,)),
    ("shared-by-two-columns", _shared_with_column, SHARED, (BROKEN,)),
    ("shared-by-two-row-groups", _shared_with_row_group, SHARED, (0, BROKEN)),
    ("empty-over-values", _empty, ("empty", "zero", "no bit", "bit"), (BROKEN,)),
]


def cases(good: Path, folder: Path) -> Iterator[Case]:
    """Every broken file, written below ``folder``."""
    for name, operate, kind, row_groups in CASES:
        patient = Patient(good)
        operate(patient)
        path = folder / f"{name}.parquet"
        patient.save(path)
        yield Case(name, path, kind, row_groups)

"""A filter's header and bitset, under each variant: `SplitBlockBloomFilter.from_bytes`, `read_header`, `read_any`.

The first byte of an input chooses the variant and what is done to the rest.
"""

from __future__ import annotations

from choices import Choices
from scratch import one_line
from support.oracle.oracle import filter_header
from wire import Spelled

from parquet_bloom import SplitBlockBloomFilter
from parquet_bloom.core.bloom.variants import VARIANTS
from parquet_bloom.errors import BrokenFilterError
from parquet_bloom.metadata.filter_header import read_any, read_header, write_header

ALLOWED = (BrokenFilterError,)
SLICE = 400

_VALUES = ["a", "bc", "def", ""]
_GOOD = {}
for _variant in VARIANTS:
    _filter = SplitBlockBloomFilter(96 if _variant.block != "mask" else 64, variant=_variant)
    _filter.insert(_VALUES)
    _GOOD[_variant] = _filter.to_bytes(header=True)
_HEADERS = [Spelled.of(filter_header(num_bytes)) for num_bytes in (32, 64, 96)]


def seeds() -> list[bytes]:
    created = [bytes([number]) + _GOOD[variant] for number, variant in enumerate(VARIANTS)]
    return [*created, *(bytes([0x80 | number, 1, 2, 3, 4, 5, 6]) for number in range(len(VARIANTS)))]


def run(data: bytes) -> None:
    choices = Choices(data)
    first = choices.byte()
    variant = VARIANTS[(first & 0x7F) % len(VARIANTS)]
    if first & 0x80:
        header = choices.pick(_HEADERS).changed(choices)
        stored = header + bytes(choices.pick((0, 31, 32, 33, 64, 96)))
    else:
        stored = choices.rest
    headers = []
    for read in (read_any, lambda some: read_header(some, variant), read_header):
        try:
            headers.append(read(stored))
        except BrokenFilterError as error:
            one_line(error)
    for header in headers:
        assert 0 < header.header_bytes <= len(stored), header
    try:
        bloom_filter = SplitBlockBloomFilter.from_bytes(stored, copy=bool(len(stored) & 1), variant=variant)
    except BrokenFilterError as error:
        one_line(error)
        return
    assert 32 <= bloom_filter.num_bytes <= len(stored)
    assert 0 <= bloom_filter.fill <= 1
    assert 0 <= bloom_filter.fpp <= 1
    assert bloom_filter.ndv_estimate >= 0
    bitset = stored[len(stored) - bloom_filter.num_bytes :]
    assert bloom_filter.to_bytes() == bitset
    content = write_header(bloom_filter.num_bytes, variant) + bitset
    assert bloom_filter.to_bytes(header=True) == content
    assert SplitBlockBloomFilter.from_bytes(content, variant=variant) == bloom_filter
    if bloom_filter.num_bytes % 32 == 0:
        more = SplitBlockBloomFilter(bloom_filter.num_bytes, variant=variant)
        more.insert(_VALUES)
        assert more.merge(bloom_filter).check(_VALUES).all(), "a value that was inserted is gone"
    if stored == _GOOD[variant]:
        assert bloom_filter.check(_VALUES).all(), "a good filter denies its values"

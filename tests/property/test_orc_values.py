"""No row of an ORC file is lost: statistics and filters leave in every value that is there, as literal or array."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as pa_orc
import pytest

import parquet_bloom.orc as orc
from parquet_bloom.hashing.coerce import coerce, make_bounds
from parquet_bloom.orc.orc_filters import keying_of

DAY_NS = 86_400 * 10**9


def _numbers(rng: random.Random, bits: int) -> int:
    edge = [0, -1, 1, (1 << bits - 1) - 1, -(1 << bits - 1)]
    return rng.choice(edge) if rng.random() < 0.2 else rng.randrange(-(1 << bits - 1), 1 << bits - 1)


def _moment(rng: random.Random) -> int:
    near = [0, -1, 1, 999_999, -999_999, -1_000_000, -999_999_999, -1_500_000_000, 500_000_000, DAY_NS, -DAY_NS]
    return rng.choice(near) if rng.random() < 0.4 else rng.randrange(-(9 * 10**18), 9 * 10**18)


def _float(rng: random.Random) -> float:
    edge = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 5e-324, 1.5]
    return rng.choice(edge) if rng.random() < 0.3 else rng.gauss(0, 10.0 ** rng.randint(-9, 9))


TYPES: dict[str, tuple[pa.DataType, Any]] = {
    "i8": (pa.int8(), lambda rng: _numbers(rng, 8)),
    "i16": (pa.int16(), lambda rng: _numbers(rng, 16)),
    "i32": (pa.int32(), lambda rng: _numbers(rng, 32)),
    "i64": (pa.int64(), lambda rng: _numbers(rng, 64)),
    "flag": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "f32": (pa.float32(), _float),
    "f64": (pa.float64(), _float),
    "text": (pa.string(), lambda rng: "".join(rng.choices("aé\0z 😀", k=rng.randrange(6)))),
    "blob": (pa.binary(), lambda rng: rng.randbytes(rng.randrange(20))),
    "day": (pa.date32(), lambda rng: rng.randrange(-719_162, 2_932_896)),
    "wall": (pa.timestamp("ns"), _moment),
    "moment": (pa.timestamp("ns", tz="UTC"), _moment),
    "d9": (pa.decimal128(9, 2), lambda rng: Decimal(rng.randrange(-(10**9) + 1, 10**9)).scaleb(-2)),
    "d38": (pa.decimal128(38, 10), lambda rng: Decimal(rng.randrange(-(10**28), 10**28)).scaleb(-10)),
}


@pytest.mark.parametrize("seed", range(6))
def test_statistics_and_filters_leave_in_every_value(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    rows, nulls = rng.randrange(1, 400), rng.choice([0.0, 0.1, 0.9])
    columns = {
        name: pa.array([None if rng.random() < nulls else make(rng) for _ in range(rows)], kind)
        for name, (kind, make) in TYPES.items()
    }
    path = tmp_path / "a.orc"
    pa_orc.write_table(
        pa.table(columns),
        path,
        row_index_stride=rng.choice([10, 64, 1_000]),
        compression=rng.choice(["uncompressed", "zlib", "snappy", "zstd"]),
        bloom_filter_columns=list(range(1, len(TYPES) + 1)),
        bloom_filter_fpp=rng.choice([0.5, 0.05, 0.001]),
        stripe_size=rng.choice([1 << 12, 1 << 20]),
        batch_size=rng.choice([16, 1_024]),
    )
    # What pyarrow reads is what was written, but for timestamps of the last second before 1970.
    table = pa_orc.read_table(path)
    with orc.open(path) as file:
        for leaf in file.leaves:
            evidence = file.row_group_evidence([leaf], range(len(file.stripes)))
            stripes = file.stripe_statistics(leaf)
            for group in file.row_groups:
                values = table[leaf.name].slice(group.first_row, group.num_rows).combine_chunks()
                one = evidence[group.stripe, leaf.column_id][group.row_group]
                bloom_filter = file.filters_of(leaf, group.stripe)[group.row_group]
                assert bloom_filter is not None
                assert bloom_filter.check(values).all()
                assert one.filtered is bloom_filter.trusted
                for statistics in (one, stripes[group.stripe]):
                    assert statistics.has_values is not False or values.null_count == len(values)
                    assert statistics.has_nulls is not False or values.null_count == 0
                    for value in values.drop_null():
                        literal = value if pa.types.is_temporal(value.type) else value.as_py()
                        coerced = coerce([literal], leaf.column_type)
                        if coerced.unknown is not None:  # NaN
                            continue
                        hashes, _ = keying_of(leaf)(coerced.values, leaf.column_type)
                        assert not bloom_filter.trusted or bloom_filter.check_hashes(hashes).any()
                        limits = make_bounds(literal, leaf.column_type)
                        if limits.unknown is None:
                            assert statistics.low is None or statistics.low <= limits.at_most
                            assert statistics.high is None or statistics.high >= limits.at_least

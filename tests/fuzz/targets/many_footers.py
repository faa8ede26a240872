"""metadata/thrift_compact.pyx over many footers at once: what `index_footer` and `Footer.statistics` say of each."""

from __future__ import annotations

import numpy as np
from small_footers import seeds
from taking import is_compared

from parquet_bloom.errors import MalformedFooterError
from parquet_bloom.metadata import thrift_compact as compact
from parquet_bloom.metadata.footer import Footer, as_type

ALLOWED: tuple[type[Exception], ...] = ()

BOUNDS = (6, 5, 2, 1)


def run(data: bytes) -> None:
    good = seeds()[0]
    footers = [good, data, data[: len(data) // 2], b"", good]
    starts = np.full(len(footers), 1 << 20)
    files, schemas, row_groups, first_row_group, chunks, first_chunk, apart = compact.index_footers(footers, starts)
    assert first_row_group[-1] == len(row_groups)
    assert first_chunk[-1] == len(chunks)
    assert files["is_usual"][0]
    assert files[0] == files[4]
    assert schemas[4] == schemas[0] == 0
    for i, footer in enumerate(footers):
        if not files["is_usual"][i]:
            assert schemas[i] == i
            continue
        alone, groups, own = compact.index_footer(footer)
        positions = dict(enumerate(files["positions"][i].tolist()))
        assert {number: at for number, at in positions.items() if at >= 0} == {
            number: at for number, at in alone.items() if isinstance(number, int)
        }
        assert (files["num_rows"][i], files["end"][i]) == (alone.get("num_rows", 0), alone["end"])
        assert (files["ends"][i] >= files["positions"][i]).all()
        like, schema = int(schemas[i]), slice(int(files["positions"][i, 2]), int(files["ends"][i, 2]))
        assert footer[schema] == footers[like][int(files["positions"][like, 2]) :][: schema.stop - schema.start]
        own_groups = row_groups[first_row_group[i] : first_row_group[i + 1]].copy()
        own_groups["first_chunk"] -= first_chunk[i]
        assert own_groups.tobytes() == groups.tobytes()
        assert chunks[first_chunk[i] : first_chunk[i + 1]].tobytes() == own.tobytes()
        if is_compared(data):
            try:
                whole = Footer(footer, 1 << 20)
            except MalformedFooterError:
                continue
            assert bool(apart[i]) == whole.filters_apart
    compare_statistics(footers, np.repeat(np.arange(len(footers)), np.diff(first_chunk)), chunks)


def compare_statistics(footers: list[bytes], which: np.ndarray, chunks: np.ndarray) -> None:
    path = b"\x18\x01a"
    records = compact.read_statistics(
        footers, which, chunks["statistics_start"].copy(), chunks["path_start"].copy(), path
    )
    for i, chunk, record in zip(which.tolist(), chunks, records, strict=True):
        start, at = int(chunk["statistics_start"]), int(chunk["path_start"])
        if not record["is_usual"]:
            continue
        assert at < 0 or footers[i][at:].startswith(path)
        fields = compact.read_struct(footers[i], start)[0] if start >= 0 else {}
        null_count = as_type(fields.get(3), int)
        assert (null_count is not None) == record["has_null_count"]
        assert (null_count or 0) == record["null_count"]
        for bound, number in enumerate(BOUNDS):
            stored = as_type(fields.get(number), bytes)
            begin, length = int(record["start"][bound]), int(record["length"][bound])
            assert (stored is None) == (begin < 0)
            if stored is not None:
                assert footers[i][begin : begin + length] == stored
                assert int(record["number"][bound]) == int.from_bytes(stored[:8], "little")

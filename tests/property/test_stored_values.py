"""Values that are taken from pages as they are stored are those that pyarrow decodes, for random tables and writers."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.random_cases.hunting import seeds
from support.random_cases.random_tables import draw_table
from support.scale import scaled
from support.stored_values import decoded, hash_all, open_readers, stored
from support.writers import random_files

WRITERS = {
    "pyarrow": random_files.by_pyarrow,
    "duckdb": random_files.by_duckdb,
    "datafusion": random_files.by_datafusion,
    "polars": random_files.by_polars,
}
LEAST_STORED = 0.5  # share of the chunks; some codecs, encodings and types are always left to pyarrow


@pytest.mark.parametrize("writer", WRITERS)
def test_pages_give_what_pyarrow_decodes(tmp_path: Path, writer: str) -> None:
    tally: Counter[str] = Counter()
    for seed in seeds(scaled(12)):
        rng = random.Random(f"{writer} {seed}")
        rows = rng.choice([1, 60, 700, 2500, 8000])
        table = draw_table(rng, random_files.KINDS[writer], rows)
        if writer != "pyarrow":
            flat = [name for name in table.column_names if not pa.types.is_nested(table.schema.field(name).type)]
            table = table.select(flat or table.column_names)
        path = tmp_path / f"{seed}.parquet"
        options = WRITERS[writer](rng, table, path, rng.choice([rows, max(1, rows // 3)]))
        with open_readers(path) as readers:
            for name, reader in readers.items():
                for row_group in range(reader._footer.num_row_groups):
                    ours = stored(reader, row_group)
                    tally["all"] += 1
                    if ours is not None:
                        tally["stored"] += 1
                        assert ours == decoded(reader, row_group), (seed, name, row_group, options)
        path.unlink()
    assert tally["stored"] >= LEAST_STORED * tally["all"], tally


def _damage(rng: random.Random, data: bytes, start: int, end: int) -> bytes:
    """Change a few bytes of a chunk, half of them in its first header."""
    bad = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 3])):
        at = rng.randrange(start, end) if rng.random() < 0.5 else min(end - 1, start + rng.randrange(60))
        if rng.random() < 0.4:
            bad[at] ^= 1 << rng.randrange(8)
        else:
            bad[at] = rng.choice([0, 1, 2, 3, 4, 5, 6, 8, 0x15, 0x7F, 0x80, 0xFF])
    return bytes(bad)


def test_damage_ends_as_it_does_in_pyarrow(tmp_path: Path) -> None:
    """With the same error, or with the same values: a filter never has fewer because pages were read in another way."""
    path, tally = tmp_path / "damaged.parquet", Counter[str]()
    for seed in seeds(scaled(15)):
        rng = random.Random(f"damage {seed}")
        rows = rng.choice([5, 60, 700])
        table = draw_table(rng, random_files.KINDS["pyarrow"], rows)
        options = random_files.by_pyarrow(rng, table, path, rows)
        data, metadata = path.read_bytes(), pq.read_metadata(path).row_group(0)
        chunks = [metadata.column(i) for i in range(metadata.num_columns)]
        chunks = [chunk for chunk in chunks if chunk.physical_type != "BOOLEAN"]
        for _ in range(20 if chunks else 0):
            chunk = rng.choice(chunks)
            start = min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset)))
            path.write_bytes(_damage(rng, data, start, start + chunk.total_compressed_size))
            with open_readers(path) as readers:
                reader = readers[chunk.path_in_schema]
                expected, ours = decoded(reader, 0), hash_all(reader.read_occurring(0))
            assert ours == expected, (seed, chunk.path_in_schema, options)
            tally["error" if isinstance(ours, str) else "values"] += 1
    assert min(tally["error"], tally["values"]) > 20, tally

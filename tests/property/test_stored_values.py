"""Values that are taken from pages as they are stored are those that pyarrow decodes, for random tables and writers."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from support.random_cases.hunting import seeds
from support.stored_values import decoded, draw_table, open_readers, small_pages, stored
from support.tiers import by_tier
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
    for seed in seeds(by_tier(12, 40, 1500)):
        rng = random.Random(f"{writer} {seed}")
        rows = rng.choice([1, 60, 700, 2500, 8000])
        table = draw_table(rng, random_files.KINDS[writer], rows)
        if writer != "pyarrow":
            flat = [name for name in table.column_names if not pa.types.is_nested(table.schema.field(name).type)]
            table = table.select(flat or table.column_names)
        path = tmp_path / f"{seed}.parquet"
        options = WRITERS[writer](rng, table, path, rng.choice([rows, max(1, rows // 3)]))
        with open_readers(path) as readers, small_pages():
            for name, reader in readers.items():
                for row_group in range(reader._footer.num_row_groups):
                    ours = stored(reader, row_group)
                    tally["all"] += 1
                    if ours is not None:
                        tally["stored"] += 1
                        assert ours == decoded(reader, row_group), (seed, name, row_group, options)
        path.unlink()
    assert tally["stored"] >= LEAST_STORED * tally["all"], tally

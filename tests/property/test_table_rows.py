"""Random Delta and Iceberg tables show the rows that they have by the formats' rules, whatever a query is for."""

from pathlib import Path

import pytest
from support.random_cases.hunting import seeds
from support.scale import scaled

from parquet_bloom.scan.scan_options import LIMITS

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
from support.random_cases.table_hunt import hunt


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_rows_of_random_tables(kind: str, together: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if together:  # files are small: otherwise most have too many matching rows to be read in batches
        monkeypatch.setitem(vars(LIMITS), "few_of", 1)
    tally = hunt(kind, seeds(scaled(2)), tmp_path, 20)
    assert not tally.wrong
    assert not any(outcome.endswith("differs") for outcome in tally.readers), tally
    assert tally.queries > 20
    assert tally.unopened

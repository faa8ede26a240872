"""Random Delta and Iceberg tables show the rows that they have by the formats' rules, whatever a query is for."""

from pathlib import Path

import pytest
from support.random_cases.hunting import seeds
from support.tiers import by_tier

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")
from support.random_cases.table_hunt import hunt


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_rows_of_random_tables(kind: str, tmp_path: Path) -> None:
    tally = hunt(kind, seeds(by_tier(2, 15, 200)), tmp_path, 20)
    assert not tally.wrong
    assert not any(outcome.endswith("differs") for outcome in tally.readers), tally
    assert tally.queries > 20
    assert tally.unopened

"""Engines that skip a row group by its filter: ours always does where the format has filters; none loses a row.

`python tests/support/engines/reader_table.py` prints the same tables. What the peers skip is theirs to change: it is
measured, and held against ours only.
"""

from __future__ import annotations

import pytest
from support.engines import reader_table
from support.engines.reader_table import NO_FILTER, OURS, PREDICATES, TYPES

LOST_BY = {"float, double", "float16"}  # filters that are not ours; by ours nobody loses a row


@pytest.fixture(scope="module")
def stacks(tmp_path_factory):
    return reader_table.haystacks(tmp_path_factory.mktemp("stacks"))


@pytest.mark.parametrize("title", [title for title in TYPES if title not in NO_FILTER])
def test_every_type_is_skipped_by(title, stacks):
    assert reader_table.ours_of_type(stacks[title], title) == "yes"


@pytest.mark.parametrize("title", [title for title in TYPES if title not in NO_FILTER])
def test_every_type_is_skipped_by_filters_of_pyarrow(title, stacks, tmp_path):
    path = reader_table.filtered_by_pyarrow(tmp_path, stacks[title], title)
    if path is None:
        assert TYPES[title].byte_array
        return
    assert reader_table.ours_of_type(stacks[title], title, path) == "yes"


def test_an_unused_filter_is_reported(stacks):
    """Files without filters, whose ranges hold every needle: a measure that always said yes would be none."""
    assert {reader_table.ours_of_type(stack, title, stack.plain) for title, stack in stacks.items()} == {"no"}


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return reader_table.Keys(tmp_path_factory.mktemp("keys"))


def test_every_predicate_is_skipped_by(keys):
    assert keys.ours == dict.fromkeys(PREDICATES, "yes")


def hold_against_ours(table: dict[str, dict[str, str]], expected: set[str], may_lose: set[str]) -> None:
    print(reader_table.markdown(table, ""))
    for title, cells in table.items():
        assert cells[OURS] == ("yes" if title in expected else "no"), title
        for engine, cell in cells.items():
            measured, *losses = cell.split(", loses")
            assert "loses" not in measured, (title, engine, cell)
            assert not losses or title in may_lose, (title, engine, cell)
            assert cells[OURS] == "yes" or "yes" not in cell, (title, engine, cell)


@pytest.mark.parametrize(
    "engine", ["duckdb", "datafusion", "clickhouse", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.long])]
)
def test_peers(engine, stacks, keys, tmp_path, request):
    needs = {"clickhouse": "clickhouse_server", "spark": "spark"}
    helper = request.getfixturevalue(needs[engine]) if engine in needs else None
    ask = reader_table.engine(engine, helper)
    hold_against_ours(reader_table.types_table(tmp_path, stacks, {engine: ask}), TYPES.keys() - NO_FILTER, LOST_BY)
    # Spark takes a minute to parse and plan the longest list.
    titles = [title for title in PREDICATES if engine != "spark" or title != "IN, 100,000 values"]
    hold_against_ours(reader_table.predicates_table(keys, {engine: ask}, titles), set(PREDICATES), set())

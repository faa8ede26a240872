"""Engines that skip a row group by its filter: ours always does where the format has filters; none loses a row.

`python tests/support/engines/reader_table.py` prints the same table. What the peers skip is theirs to change: it is
measured, and held against ours only.
"""

from __future__ import annotations

import pytest
from support.engines import reader_table
from support.engines.reader_table import NO_FILTER, OURS, TYPES

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


@pytest.mark.parametrize(
    "engine", ["duckdb", "datafusion", "clickhouse", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.long])]
)
def test_peers(engine, stacks, tmp_path, request):
    needs = {"clickhouse": "clickhouse_server", "spark": "spark"}
    helper = request.getfixturevalue(needs[engine]) if engine in needs else None
    ask = reader_table.engine(engine, helper)
    table = reader_table.types_table(tmp_path, stacks, {engine: ask})
    print(reader_table.markdown(table, ""))
    for title, cells in table.items():
        assert cells[OURS] == ("no" if title in NO_FILTER else "yes"), title
        for name, cell in cells.items():
            measured, *losses = cell.split(", loses")
            assert "loses" not in measured, (title, name, cell)
            assert not losses or title in LOST_BY, (title, name, cell)
            assert cells[OURS] == "yes" or "yes" not in cell, (title, name, cell)

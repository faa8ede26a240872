"""Read the rows of keys."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from ...predicate.key_match import match_keys
from ...util.arrow_values import empty_table
from ..read.reader import RowReader
from ..schema import select_columns
from ..source import ScanSource
from .keys import Keys
from .session import LookupSession


def get_rows(
    source: ScanSource,
    schema: pa.Schema,
    session: LookupSession | None,
    keys: Keys,
    columns: Sequence[str] | None,
    timezone: str,
    threads: int | None,
) -> pa.Table:
    """Read the rows of keys, in the order of the keys and of the files; see `Dataset.get`."""
    if not len(keys):
        return empty_table(select_columns(schema, columns)[1] or schema)
    chosen, result = select_columns(schema, columns)
    if session is not None and len(keys) == 1 and result is not None and len(result):
        rows = session.read(keys, result, timezone)
        if rows is not None:
            return rows
    plan = None if session is None else session.plan(keys, timezone, threads)
    if plan is None:
        plan = source.plan(keys.node, timezone=timezone, threads=threads, named=schema.names.__contains__)
    names = columns if columns is None else [*columns, *(name for name in keys.columns if name not in columns)]
    chosen, result = select_columns(schema, names)
    rows = RowReader(plan, chosen, schema=result, cache=source.cache).read_table(threads=threads)
    if len(keys) > 1:
        rows = rows.take(pa.array(match_keys(rows, keys.columns, keys.literals, timezone).rows))
    return rows if columns is None else rows.select(columns)

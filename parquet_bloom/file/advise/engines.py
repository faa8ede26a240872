"""The query engines that use a column's filters, by column type, as observed in their current releases."""

from __future__ import annotations

from ...hashing.column_type import ColumnType, Kind

DUCKDB, DATAFUSION, CLICKHOUSE, SPARK = "DuckDB", "DataFusion", "ClickHouse", "Spark"
ENGINES = (DUCKDB, DATAFUSION, CLICKHOUSE, SPARK)


def engines_for(column_type: ColumnType, nested: bool = False, repeated: bool = False) -> tuple[str, ...]:
    """Return the engines that skip row groups by filters of such a column, for `column = value`.

    Parameters
    ----------
    nested : whether it is a field of a struct.
    repeated : whether it holds elements of lists or maps: no engine uses their filters.
    """
    if repeated:
        return ()
    engines = _engines_by_type(column_type)
    return tuple(engine for engine in ENGINES if engine in engines and not (nested and engine == DATAFUSION))


def _engines_by_type(column_type: ColumnType) -> set[str]:
    kind, physical = column_type.kind, column_type.physical
    if physical in ("BOOLEAN", "INT96") or kind is Kind.UNKNOWN:
        return set()
    if kind is Kind.INTEGER:
        narrow = (column_type.bits or 64) < 32
        return {DUCKDB, CLICKHOUSE} | ({SPARK} if column_type.signed else set()) | (set() if narrow else {DATAFUSION})
    if kind is Kind.FLOAT:
        return {DUCKDB} if column_type.length == 2 else {DUCKDB, DATAFUSION, SPARK}
    if kind is Kind.DECIMAL:
        if physical == "BYTE_ARRAY":
            return set()
        return {DATAFUSION, SPARK} | ({DUCKDB} if physical in ("INT32", "INT64") else set())
    if kind is Kind.TIMESTAMP:
        return {DUCKDB, SPARK} if column_type.utc and column_type.unit == "us" else {DUCKDB}
    if physical == "BYTE_ARRAY":
        return set(ENGINES)
    return {
        Kind.DATE: {DUCKDB, SPARK},
        Kind.TIME: {DUCKDB},
        Kind.UUID: {DUCKDB},
        Kind.BYTES: {DUCKDB, DATAFUSION, CLICKHOUSE},
    }.get(kind, set())

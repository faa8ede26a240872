"""The engines of the benchmark of shapes, each used as its users would, with the settings that serve it best."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import _common  # noqa: F401  (first, to import the package of this checkout)
from _shapes_queries import Term, to_sql

OURS = "parquet_bloom"


class Engine(Protocol):
    """An engine: made after its imports, which its constructor does."""

    def open(self, folder: Path, is_kept: bool) -> Any:
        """Return what queries a lake, a dataset or a connection, for one query or to be kept for many."""

    def query(self, lake: Any, terms: Sequence[Term], columns: list[str] | None) -> Any:
        """Return the rows of a query, as the engine's users get them."""

    def to_rows(self, result: Any) -> list[dict[str, Any]]:
        """Return a result as dictionaries; this is not timed."""


class ParquetBloom:
    def __init__(self) -> None:
        import pyarrow  # noqa: F401

        from parquet_bloom import dataset

        self._dataset = dataset

    def open(self, folder: Path, is_kept: bool) -> Any:
        return self._dataset(folder)

    def query(self, lake: Any, terms: Sequence[Term], columns: list[str] | None) -> Any:
        return lake.scan(our_sql(terms), columns).to_arrow()

    def to_rows(self, result: Any) -> list[dict[str, Any]]:
        return result.to_pylist()  # type: ignore[no-any-return]


class DuckDB:
    """It takes least time where rows are fetched as Python's, footers are cached, and contents of files are not."""

    def __init__(self) -> None:
        import duckdb

        self._module = duckdb

    def open(self, folder: Path, is_kept: bool) -> Any:
        connection = self._module.connect()
        connection.execute("SET parquet_metadata_cache = true")
        return connection, folder

    def query(self, lake: Any, terms: Sequence[Term], columns: list[str] | None) -> Any:
        cursor = lake[0].execute(duckdb_sql(lake[1], terms, columns))
        return [name for name, *_ in cursor.description], cursor.fetchall()

    def to_rows(self, result: Any) -> list[dict[str, Any]]:
        return [dict(zip(result[0], row, strict=True)) for row in result[1]]


class DataFusion:
    """With all that its reader can prune by switched on, and caches that hold the footers of all files."""

    def __init__(self) -> None:
        import datafusion

        self._module = datafusion

    def open(self, folder: Path, is_kept: bool) -> Any:
        config = self._module.SessionConfig()
        for name in _DATAFUSION:
            config = config.set(f"datafusion.execution.parquet.{name}", "true")
        # By default it would read the last 512 KiB of each file.
        config = config.set("datafusion.execution.parquet.metadata_size_hint", str(16 * 1024))
        context = self._module.SessionContext(config)
        # The default caches hold what one query needs, and setting others takes more than 10 ms.
        for name in _CACHES if is_kept else ():
            context.sql(f"SET datafusion.runtime.{name} = '1G'")
        context.register_parquet("lake", str(folder))
        return context

    def query(self, lake: Any, terms: Sequence[Term], columns: list[str] | None) -> Any:
        return lake.sql(datafusion_sql(terms, columns)).collect()

    def to_rows(self, result: Any) -> list[dict[str, Any]]:
        return [row for batch in result for row in batch.to_pylist()]


_CACHES = ("metadata_cache_limit", "list_files_cache_limit", "file_statistics_cache_limit")
_DATAFUSION = ("pruning", "bloom_filter_on_read", "enable_page_index", "pushdown_filters", "reorder_filters")


class Polars:
    def __init__(self) -> None:
        import polars

        self._module = polars

    def open(self, folder: Path, is_kept: bool) -> Any:
        return self._module.scan_parquet(folder / "*.parquet")

    def query(self, lake: Any, terms: Sequence[Term], columns: list[str] | None) -> Any:
        rows = lake.filter(*(self._translate(*term) for term in terms))
        return (rows if columns is None else rows.select(columns)).collect()

    def _translate(self, column: str, operator: str, value: Any) -> Any:
        col = self._module.col(column)
        if operator == "in":
            return col.is_in(value)
        if operator == "contains":
            return col.list.contains(value)
        if operator == "contains any":
            return col.list.eval(self._module.element().is_in(value)).list.any()
        return {"=": col.eq, "<": col.lt, ">=": col.ge}[operator](value)

    def to_rows(self, result: Any) -> list[dict[str, Any]]:
        return result.to_dicts()  # type: ignore[no-any-return]


class PyarrowDataset:
    """pyarrow's dataset; it has no function of lists, so that these are compared in memory."""

    def __init__(self) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        self._pa, self._pc, self._ds = pa, pc, ds

    def open(self, folder: Path, is_kept: bool) -> Any:
        return self._ds.dataset(folder)

    def query(self, lake: Any, terms: Sequence[Term], columns: list[str] | None) -> Any:
        condition = None
        for column, operator, value in terms:
            if not operator.startswith("contains"):
                field = self._ds.field(column)
                term = field.isin(value) if operator == "in" else self._compare(field, operator, value)
                condition = term if condition is None else condition & term
        table = lake.to_table(columns=columns, filter=condition)
        for column, operator, value in terms:
            if operator.startswith("contains"):
                table = table.combine_chunks()
                lists = (
                    table[column].chunk(0) if table.num_rows else self._pa.array([], table.schema.field(column).type)
                )
                values = self._pa.array(value if operator == "contains any" else [value], lists.type.value_type)
                rows = self._pc.list_parent_indices(lists).filter(self._pc.is_in(self._pc.list_flatten(lists), values))
                table = table.take(self._pc.unique(rows))
        return table

    def _compare(self, field: Any, operator: str, value: Any) -> Any:
        if operator == "=":
            return field == value
        return field < value if operator == "<" else field >= value

    def to_rows(self, result: Any) -> list[dict[str, Any]]:
        return result.to_pylist()  # type: ignore[no-any-return]


ENGINES: dict[str, tuple[str, type[Engine]]] = {
    OURS: ("parquet_bloom", ParquetBloom),
    "DuckDB": ("duckdb", DuckDB),
    "DataFusion": ("datafusion", DataFusion),
    "polars": ("polars", Polars),
    "pyarrow": ("pyarrow", PyarrowDataset),
}
"""{name: (required module, engine)}."""


def our_sql(terms: Sequence[Term]) -> str:
    return to_sql(terms, "array_contains", "arrays_overlap", "ARRAY({})")


def duckdb_sql(folder: Path, terms: Sequence[Term], columns: list[str] | None) -> str:
    condition = to_sql(terms, "list_contains", "list_has_any", "[{}]")
    return f"SELECT {_select(columns)} FROM read_parquet('{folder}/*.parquet') WHERE {condition}"


def datafusion_sql(terms: Sequence[Term], columns: list[str] | None) -> str:
    condition = to_sql(terms, "array_has", "array_has_any", "[{}]")
    return f"SELECT {_select(columns)} FROM lake WHERE {condition}"


def _select(columns: list[str] | None) -> str:
    return "*" if columns is None else ", ".join(columns)


def program(name: str, folder: Path, terms: Sequence[Term], columns: list[str] | None) -> str | None:
    """Return a Python program that prints the rows of a query as a list of dictionaries; None where a peer has none.

    It is what a user would write for that engine alone, so that it imports nothing else.
    """
    if name == OURS:
        query = f"dataset({str(folder)!r}).scan({our_sql(terms)!r}, {columns!r})"
        return f"from parquet_bloom import dataset\nprint({query}.to_arrow().to_pylist())"
    if name == "DuckDB":
        return (
            "import duckdb\nduckdb.execute('SET enable_progress_bar = false')\n"  # it would be among the rows
            f"rows = duckdb.execute({duckdb_sql(folder, terms, columns)!r})\n"
            "names = [name for name, *_ in rows.description]\nprint([dict(zip(names, row)) for row in rows.fetchall()])"
        )
    if name == "DataFusion":
        return (
            "import datafusion\ncontext = datafusion.SessionContext()\n"
            f"context.register_parquet('lake', {str(folder)!r})\n"
            f"print(context.sql({datafusion_sql(terms, columns)!r}).to_pylist())"
        )
    if any(operator.startswith("contains") for _, operator, _ in terms):
        return None
    if name == "polars":
        condition = ", ".join(_POLARS[operator].format(column, value) for column, operator, value in terms)
        chosen = "" if columns is None else f".select({columns!r})"
        return (
            f"import polars as pl\nrows = pl.scan_parquet({str(folder / '*.parquet')!r}).filter({condition}){chosen}\n"
            "print(rows.collect().to_dicts())"
        )
    filters = [(column, {"=": "=="}.get(operator, operator), value) for column, operator, value in terms]
    return (
        "import pyarrow.parquet as pq\n"
        f"print(pq.read_table({str(folder)!r}, columns={columns!r}, filters={filters!r}).to_pylist())"
    )


_POLARS = {
    "=": "pl.col({0!r}) == {1!r}",
    "<": "pl.col({0!r}) < {1!r}",
    ">=": "pl.col({0!r}) >= {1!r}",
    "in": "pl.col({0!r}).is_in({1!r})",
}


def make_job(folder: Path, terms: Sequence[Term], columns: list[str] | None, is_first: bool) -> str:
    """Return one line for `_shapes_one.py`."""
    return json.dumps({"folder": str(folder), "terms": terms, "columns": columns, "first": is_first})

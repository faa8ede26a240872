"""Engines with a Python API, of any release: pyarrow, polars, fastparquet.

A question names the row that holds the value, so that the engine compares with what it reads of that row itself.
Like `sql_engines` it needs the engine alone.
"""

from __future__ import annotations

import functools
from typing import Any

from support.engines.sql_engines import Engine


class Frames(Engine):
    def counts(self, questions: list[dict[str, Any]]) -> list[int | None]:
        results: list[int | None] = []
        for question in questions:
            try:
                results.append(self.equal(question))
            except BaseException as error:  # polars' panics are not an Exception
                if isinstance(error, KeyboardInterrupt):
                    raise
                results.append(None)
        return results

    def equal(self, question: dict[str, Any]) -> int:
        """Return the rows of `path` whose `column` equals row `row` of the file `plain`."""
        raise NotImplementedError


class PyArrow(Frames):
    def __init__(self) -> None:
        import pyarrow
        import pyarrow.dataset
        import pyarrow.parquet

        self.arrow, self.dataset, self.parquet = pyarrow, pyarrow.dataset, pyarrow.parquet
        self.open = functools.lru_cache(8)(lambda path: pyarrow.dataset.dataset(path))
        self.read = functools.lru_cache(4)(lambda path: pyarrow.parquet.read_table(path))

    def version(self) -> str:
        return f"pyarrow {self.arrow.__version__}"

    def equal(self, question: dict[str, Any]) -> int:
        top, *rest = question["column"].split(".")
        value = self.read(question["plain"])[top][question["row"]]
        for part in rest:
            value = value[part]
        condition = self.dataset.field(top, *rest) == value
        return self.open(question["path"]).to_table(columns=[top], filter=condition).num_rows

    def write(self, source: str, target: str, filters: bool, group: int, **options: Any) -> None:
        table = self.parquet.read_table(source)
        given: dict[str, Any] = {"row_group_size": group, "use_dictionary": False, **options}
        if filters:
            columns = self.parquet.read_metadata(source).schema
            leaves = [columns.column(i) for i in range(len(columns))]
            chosen = [leaf.path for leaf in leaves if leaf.physical_type != "BOOLEAN"]
            bloom = {path: {"ndv": 200, "fpp": 0.001} for path in chosen}
            try:
                self.parquet.write_table(table, target, bloom_filter_options=bloom, **given)
                return
            except TypeError:  # releases before 24 know no filters
                pass
        self.parquet.write_table(table, target, **given)


class Polars(Frames):
    def __init__(self) -> None:
        import polars

        self.polars = polars
        self.read = functools.lru_cache(4)(lambda path: polars.read_parquet(path))
        self.scan = functools.lru_cache(8)(lambda path: polars.scan_parquet(path))

    def version(self) -> str:
        return f"polars {self.polars.__version__}"

    def equal(self, question: dict[str, Any]) -> int:
        top, *rest = question["column"].split(".")
        column, queried = self.read(question["plain"])[top], self.polars.col(top)
        for part in rest:
            column, queried = column.struct.field(part), queried.struct.field(part)
        literal = self.polars.lit(column[question["row"]], dtype=column.dtype)
        result = self.scan(question["path"]).filter(queried == literal).select(self.polars.len()).collect()
        return result.item()

    def write(self, source: str, target: str, filters: bool, group: int, **options: Any) -> None:
        self.polars.read_parquet(source).write_parquet(target, row_group_size=group, **options)


class FastParquet(Frames):
    def __init__(self) -> None:
        import fastparquet
        import pandas

        self.module, self.pandas = fastparquet, pandas
        self.read = functools.lru_cache(64)(lambda path, column: self._file(path).to_pandas(columns=[column]))
        self._file = functools.lru_cache(8)(fastparquet.ParquetFile)

    def version(self) -> str:
        return f"fastparquet {self.module.__version__}"

    def equal(self, question: dict[str, Any]) -> int:
        column = question["column"]
        value = self.read(question["plain"], column)[column].iloc[question["row"]]
        conditions = [(column, "==", value)]
        return len(self._file(question["path"]).to_pandas(columns=[column], filters=conditions, row_filter=True))

    def write(self, source: str, target: str, filters: bool, group: int, **options: Any) -> None:
        frame = self.pandas.read_parquet(source, engine="fastparquet")
        self.module.write(target, frame, row_group_offsets=group, write_index=False, **options)

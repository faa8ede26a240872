"""A plugin of dbt-duckdb: sources that are datasets, or scans of them; in `profiles.yml` under `plugins`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from ..errors import ParquetBloomError, UnknownColumnError
from ..scan.dataset import Dataset, dataset
from ..scan.named_columns import make_names_error, select_columns
from .needed_library import needed_library

with needed_library("dbt", "the plugin for dbt needs dbt-duckdb", "dbt-duckdb"):
    from dbt.adapters.duckdb.plugins import BasePlugin

if TYPE_CHECKING:
    from dbt.adapters.duckdb.utils import SourceConfig


class Plugin(BasePlugin):  # type: ignore[misc]
    """Reads sources that are datasets, or parts of them, by keys under their `meta` or `config`.

    - `path` of files, a folder, a pattern, a URL or a table, or a list of them; `{schema}`, `{name}` and `{identifier}`
      in it are the source's. Or `index` alone, for the live files of a lake index.
    - `columns`, which there are, and `where`, which rows: a condition in SQL, in a `dialect`.
    - `index`, `zones`, `partitioning` and `storage_options`, as for `parquet_bloom.dataset`.

    Without `where` a source is a dataset: each query of a model reads only what its own filters need. With it the rows
    are read once, when dbt loads the source.
    """

    def load(self, source_config: SourceConfig) -> Dataset | pa.Table:
        """Return what DuckDB reads."""
        path, columns = source_config.get("path"), source_config.get("columns")
        if path is None and source_config.get("index") is None:
            problem = "it has no path: write the lake's below its meta, as path: lake/events"
            raise ParquetBloomError(problem, path=f"source {source_config.table_name()}")
        if isinstance(columns, str):
            raise make_names_error(columns)
        values = source_config.as_dict()
        given = [_fill(one, values) for one in path] if isinstance(path, list) else path and _fill(path, values)
        options = {name: source_config[name] for name in _OPTIONS if name in source_config}
        opened = dataset(given, **options)
        where = source_config.get("where")
        if where is not None:
            return opened.scan(where, columns, dialect=source_config.get("dialect")).to_arrow()
        if columns is None:
            return opened
        _, schema = select_columns(opened.schema, columns)
        if schema is None:
            raise UnknownColumnError(f"one of these is no column of the source: {', '.join(columns)}")
        return opened.replace_schema(schema)

    def default_materialization(self) -> str:
        """Return what dbt makes of a source: a view, through which filters get to the dataset."""
        return "view"


def _fill(path: str, values: Mapping[str, object]) -> str:
    try:
        return path.format(**values)
    except KeyError as error:
        choice = "write {schema}, {name} or {identifier}"
        problem = f"it has {{{error.args[0]}}}, which a source does not have; {choice}"
        raise ParquetBloomError(problem, path=path) from error


_OPTIONS = ("index", "zones", "partitioning", "storage_options")

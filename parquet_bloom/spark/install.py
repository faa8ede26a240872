"""A file index for Spark's planner that leaves out files by their filters, for every query on a DataFrame."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from ..errors import ParquetBloomError, UnknownColumnError
from ..file.metadata_cache import MetadataCache
from .plan.classic_session import make_indexes, place_indexes
from .plan.index_evidence import Index, open_index
from .plan.spark_planner import ScanPlanner
from .session.jvm import is_classic
from .session.session_settings import CannotPush, find_field, ignores_case, log


def install(
    table: DataFrame | str,
    columns: str | Iterable[str] | None = None,
    *,
    max_fraction: float = 0.5,
    cache: MetadataCache | None = None,
    storage_options: Mapping[str, Any] | None = None,
    index: Index | None = None,
) -> DataFrame:
    """Return a DataFrame of which every query reads only the files that can hold a match.

    The files' statistics and Bloom filters are evaluated each time that Spark plans a scan of the DataFrame, for any
    query: SQL on a view of it, a subquery, a join. The conditions are those that Spark itself pushes to the scan.
    Within the remaining files, Spark skips row groups as usual.

    Parameters
    ----------
    table : a DataFrame, or the name of a table or view in the active session. It is not changed.
    columns : dotted names of the columns whose conditions are evaluated; None for all.
    max_fraction, cache, storage_options : as for `pruned`.
    index : as for `pruned`; it stays open. Files that are indexed later are read, unless other evidence excludes them,
        until the caller refreshes the open index that was passed.

    Returns
    -------
    pyspark.sql.DataFrame
        The same rows. Create a view of it (`createOrReplaceTempView`) to query it by SQL. Files that are added later
        are seen after `REFRESH TABLE`, as usual. In case of doubt or failure, Spark reads its own list of files, and
        the logger `parquet_bloom.spark` says why.

    Raises
    ------
    ParquetBloomError
        The session uses Spark Connect, which does not expose the planner: use `pruned` or the data source there. Or
        the DataFrame reads no Parquet files.
    UnknownColumnError
        A column is in none of its files.
    StorageError
        The index does not exist.
    BrokenIndexError
        The index is corrupt.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> bloom.install(spark.read.parquet("lake")).createOrReplaceTempView("lake")  # doctest: +SKIP
    """
    frame = _resolve_frame(table)
    lake_index = None if index is None else open_index(index, storage_options)
    planner = ScanPlanner("driver", max_fraction, cache, storage_options, False, index=lake_index)
    indexes, doubts = make_indexes(frame, planner)
    for doubt in doubts:
        log.info("a part of the DataFrame is left to Spark: %s", doubt)
    if not indexes:
        raise ParquetBloomError("the DataFrame reads no Parquet files that Spark itself has listed")
    if columns is not None:
        schemas = [bloom_index.schema for bloom_index in indexes]
        names = _resolve_names(columns, schemas, ignores_case(frame.sparkSession))
        for bloom_index in indexes:
            bloom_index.columns = names
    return place_indexes(frame, {bloom_index: {} for bloom_index in indexes})


def _resolve_frame(table: DataFrame | str) -> DataFrame:
    if isinstance(table, str):
        try:
            spark = SparkSession.active()
        except PySparkException:
            problem = "there is no active Spark session in which to look up the table: pass a DataFrame"
            raise ParquetBloomError(problem) from None
        frame = spark.table(table)
    else:
        frame = table
    if not is_classic(frame.sparkSession):
        problem = (
            "install needs a classic session: Spark Connect does not expose the planner; use pruned or the data source"
        )
        raise ParquetBloomError(problem)
    if frame.isStreaming:
        raise ParquetBloomError("install needs a batch DataFrame: this one is a stream")
    return frame


def _resolve_names(columns: str | Iterable[str], schemas: list[StructType], ignore_case: bool) -> frozenset[str]:
    """Return the columns' names as the schemas spell them."""
    resolved: set[str] = set()
    for name in [columns] if isinstance(columns, str) else columns:
        try:
            fields = [field for schema in schemas if (field := find_field(schema, name, ignore_case)) is not None]
        except CannotPush as doubt:
            raise UnknownColumnError(str(doubt), column=name) from None
        if not fields:
            raise UnknownColumnError("no such column", column=name)
        resolved.update(field.name for field in fields)
    return frozenset(resolved)

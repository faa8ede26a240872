"""Pruning of the large side of a join by the keys of the small side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DoubleType, FloatType

from ..errors import ParquetBloomError, PredicateError, UnknownColumnError
from ..file.metadata_cache import MetadataCache
from ..predicate.literal import from_collection
from ..predicate.tree import In
from .parquet_reader import check_frame, pruned
from .plan.index_evidence import Index
from .plan.spark_planner import ProbeOn
from .session.session_settings import CannotPush, SparkField, find_field, ignores_case, log
from .spark_arrow import INTEGER_BITS

if TYPE_CHECKING:
    from ..util.given_types import Values


def semi_join_prune(
    df: DataFrame,
    keys: DataFrame | Values,
    on: str | tuple[str, str],
    *,
    max_keys: int = 1000,
    probe_on: ProbeOn = "auto",
    max_fraction: float = 0.5,
    row_groups: bool | Literal["auto"] = "auto",
    cache: MetadataCache | None = None,
    storage_options: Mapping[str, object] | None = None,
    index: Index | None = None,
) -> DataFrame:
    """Return the rows of `df` whose key is among `keys`, reading only the files that can hold one.

    Use it on the large side of a join: for `df.join(keys, "id")`, or `WHERE id IN (SELECT id FROM keys)`, Spark itself
    reads all of `df`. The keys are collected here and probed in the filters. An inner or left semi join of the result
    with `keys` gives the same rows as one of `df`, and so does a join that keeps unmatched rows of `keys` only.

    Each key is a false positive of a filter with probability fpp, so that of many keys some pass in every file: with n
    keys, a file without a match remains with probability 1 - (1 - fpp) ** n. When more than `max_fraction` of the files
    remains, all of them are read. For join columns, embed filters with an fpp of 1e-4 or less.

    Parameters
    ----------
    df : the large side.
    keys : the small side, whose column has the same name or is given in `on`; or the keys themselves.
    on : the column's dotted name, or its names in `df` and in `keys`.
    max_keys : with more distinct keys than this nothing is pruned.
    probe_on, max_fraction, row_groups, cache, storage_options, index : see `pruned`.

    Returns
    -------
    pyspark.sql.DataFrame
        `df` where the key is among the keys; `df` itself where there are too many, or where they cannot be compared for
        sure (types that differ, floating point), and the logger `parquet_bloom.spark` says why.

    Raises
    ------
    UnknownColumnError
        One of the sides does not have the column.
    PredicateError
        Keys cannot be compared with the column.

    Examples
    --------
    >>> from parquet_bloom import spark as bloom  # doctest: +SKIP
    >>> few = bloom.semi_join_prune(spark.read.parquet("lake"), [1, 2], "id")  # doctest: +SKIP
    """
    check_frame(df)
    if not isinstance(max_keys, int) or max_keys < 1:
        raise ParquetBloomError(f"max_keys must be at least 1, got {max_keys!r}")
    left_name, right_name = _resolve_names(on)
    try:
        field = _resolve_field(df, left_name)
        if isinstance(field.type, FloatType | DoubleType):
            raise CannotPush(f"'{left_name}' holds floating-point numbers")
        values = (
            _collect_keys(keys, right_name, field, max_keys)
            if isinstance(keys, DataFrame)
            else _check_keys(keys, max_keys)
        )
    except CannotPush as doubt:
        log.warning("nothing is pruned by keys: %s", doubt)
        return df
    options: dict[str, Any] = {"probe_on": probe_on, "max_fraction": max_fraction, "row_groups": row_groups}
    where = In(field.name, tuple(values))
    return pruned(df, where, cache=cache, storage_options=storage_options, index=index, **options)


def _resolve_names(on: Any) -> tuple[str, str]:
    names = (on, on) if isinstance(on, str) else on
    if isinstance(names, tuple | list) and len(names) == 2 and all(isinstance(name, str) for name in names):
        return names[0], names[1]
    raise ParquetBloomError(f"on must be the name of a column, or a pair of names, got {on!r}")


def _resolve_field(frame: DataFrame, name: str) -> SparkField:
    field = find_field(frame.schema, name, ignores_case(frame.sparkSession))
    if field is None:
        raise UnknownColumnError("no such column", column=name)
    return field


def _check_keys(keys: Values, max_keys: int) -> list[Any]:
    if isinstance(keys, str | bytes | Mapping) or not isinstance(keys, Iterable):
        raise ParquetBloomError(f"keys must be a DataFrame or a collection of values, got {type(keys).__name__}")
    try:
        values = [key for key in dict.fromkeys(keys) if key is not None]
    except TypeError as error:  # an unhashable key
        raise ParquetBloomError(f"keys must be a DataFrame or a collection of values: {error}") from None
    if len(values) > max_keys:
        raise CannotPush(f"there are more than {max_keys:,} keys")
    return values


def _collect_keys(keys: DataFrame, name: str, field: SparkField, max_keys: int) -> list[Any]:
    """Return the distinct keys, without NULL, which equals nothing."""
    key_field = _resolve_field(keys, name)
    if not is_comparable(field.type, key_field.type):
        types = f"{field.type.simpleString()}, but the key is {key_field.type.simpleString()}"
        raise CannotPush(f"'{field.name}' is {types}: cast one of them")
    key_column = F.col(key_field.sql).alias("key")
    table = keys.select(key_column).where(F.col("key").isNotNull()).distinct().limit(max_keys + 1).toArrow()
    if table.num_rows > max_keys:
        raise CannotPush(f"there are more than {max_keys:,} keys")
    try:
        return list(from_collection(table["key"].combine_chunks()))
    except (PredicateError, UnicodeError, pa.ArrowException) as error:  # years beyond 9999, invalid UTF-8
        raise CannotPush(f"a key cannot be converted: {error}") from error


def is_comparable(one: DataType, other: DataType) -> bool:
    """Return whether a join compares the two types value by value."""
    return one == other or (type(one) in INTEGER_BITS and type(other) in INTEGER_BITS)

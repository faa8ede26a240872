"""The large side of a join, pruned by the keys of the small side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, DataType, DoubleType, FloatType, IntegerType, LongType, ShortType

from ..errors import ParquetBloomError, PredicateError, UnknownColumnError
from ..file.cache.memory import MetadataCache
from ..predicate.literal import from_collection
from ..predicate.tree import In
from .read import check_frame, pruned
from .scan.lake_index import Index
from .scan.planner import ProbeOn
from .session.fallback import CannotPush, log
from .session.fields import Field, find_field
from .session.settings import ignores_case

_WHOLE = (ByteType, ShortType, IntegerType, LongType)


def semi_join_prune(
    df: DataFrame,
    keys: DataFrame | Iterable[Any],
    on: str | tuple[str, str],
    *,
    max_keys: int = 1000,
    probe_on: ProbeOn = "auto",
    max_fraction: float = 0.5,
    row_groups: bool | Literal["auto"] = "auto",
    cache: MetadataCache | None = None,
    storage_options: Mapping[str, Any] | None = None,
    index: Index | None = None,
) -> DataFrame:
    """The rows of `df` whose key is among `keys`, from the files that can hold one: the large side of a join.

    What Spark does not do: of `df.join(keys, "id")`, or `WHERE id IN (SELECT id FROM keys)`, it reads all of `df`. The
    keys are collected here, and the filters asked for them. An inner or left semi join of the result with `keys` gives
    what it gives of `df`, and so does a join that keeps unmatched rows of `keys` only.

    Each key passes a filter by chance with its fpp, so that of many keys some pass in every file: with n keys, files
    are left by chance at a rate of 1 - (1 - fpp) ** n. When more than `max_fraction` of the files is left, all of them
    are read. For columns that are joined by, embed filters of an fpp of 1e-4 or less.

    Parameters
    ----------
    df : the large side.
    keys : the small side, whose column has the same name or is given in `on`; or the keys themselves.
    on : the column's dotted name, or its names in `df` and in `keys`.
    max_keys : of more different keys than these nothing is pruned.
    probe_on, max_fraction, row_groups, cache, storage_options, index : see `pruned`.

    Returns
    -------
    pyspark.sql.DataFrame
        `df` where the key is among the keys; `df` itself where there are too many, or where they cannot be compared for
        sure (types that differ, floating point), and the logger `parquet_bloom.spark` says why.

    Raises
    ------
    UnknownColumnError
        One of the sides has no such column.
    PredicateError
        Keys that were given cannot be compared with the column.
    """
    check_frame(df)
    if not isinstance(max_keys, int) or max_keys < 1:
        raise ParquetBloomError(f"max_keys is at least 1, not {max_keys!r}")
    own, other = _names(on)
    try:
        field = _field(df, own)
        if isinstance(field.type, FloatType | DoubleType):
            raise CannotPush(f"'{own}' holds floating-point numbers")
        values = _collected(keys, other, field, max_keys) if isinstance(keys, DataFrame) else _given(keys, max_keys)
    except CannotPush as doubt:
        log.warning("nothing is pruned by keys: %s", doubt)
        return df
    options: dict[str, Any] = {"probe_on": probe_on, "max_fraction": max_fraction, "row_groups": row_groups}
    where = In(field.name, tuple(values))
    return pruned(df, where, cache=cache, storage_options=storage_options, index=index, **options)


def _names(on: Any) -> tuple[str, str]:
    names = (on, on) if isinstance(on, str) else on
    if isinstance(names, tuple | list) and len(names) == 2 and all(isinstance(name, str) for name in names):
        return names[0], names[1]
    raise ParquetBloomError(f"on is the name of a column, or a pair of names, not {on!r}")


def _field(frame: DataFrame, name: str) -> Field:
    field = find_field(frame.schema, name, ignores_case(frame.sparkSession))
    if field is None:
        raise UnknownColumnError("no such column", column=name)
    return field


def _given(keys: Iterable[Any], max_keys: int) -> list[Any]:
    if isinstance(keys, str | bytes | Mapping) or not isinstance(keys, Iterable):
        raise ParquetBloomError(f"keys are a DataFrame or a collection of values, not {type(keys).__name__}")
    try:
        values = [key for key in dict.fromkeys(keys) if key is not None]
    except TypeError as error:  # a list among them, say
        raise ParquetBloomError(f"keys are a DataFrame or a collection of values: {error}") from None
    if len(values) > max_keys:
        raise CannotPush(f"there are more than {max_keys:,} keys")
    return values


def _collected(keys: DataFrame, name: str, field: Field, max_keys: int) -> list[Any]:
    """The different keys, without NULL, which equals nothing."""
    other = _field(keys, name)
    if not _alike(field.type, other.type):
        types = f"{field.type.simpleString()}, but the key is {other.type.simpleString()}"
        raise CannotPush(f"'{field.name}' is {types}: cast one of them")
    key = F.col(other.sql).alias("key")
    table = keys.select(key).where(F.col("key").isNotNull()).distinct().limit(max_keys + 1).toArrow()
    if table.num_rows > max_keys:
        raise CannotPush(f"there are more than {max_keys:,} keys")
    try:
        return list(from_collection(table["key"].combine_chunks()))
    except (PredicateError, UnicodeError, pa.ArrowException) as error:  # years beyond 9999, texts that are no UTF-8
        raise CannotPush(f"a key cannot be told: {error}") from error


def _alike(one: DataType, other: DataType) -> bool:
    """Whether a join compares the two types value by value."""
    return one == other or (isinstance(one, _WHOLE) and isinstance(other, _WHOLE))

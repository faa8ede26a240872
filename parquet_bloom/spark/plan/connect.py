"""Spark Connect: what a DataFrame reads, told from the plan that the client would send, and the same plan over less."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from ..session.fallback import CannotPush
from ..session.settings import setting

_MAX_FILTERS = 100


def is_connect(spark: SparkSession) -> bool:
    """Whether a session has no JVM of its own, but a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


@dataclass(frozen=True)
class ConnectSource:
    """What is read at the bottom of a Connect DataFrame.

    Attributes
    ----------
    frame : the read alone, without any filters over it.
    paths, options, schema : as its reader was given them; the schema in DDL or JSON, or None.
    conditions : of the filters over it, the innermost first; each a Column.
    """

    frame: DataFrame
    paths: list[str]
    options: Mapping[str, str]
    schema: str | None
    conditions: tuple[Any, ...] = ()


def find_source(frame: DataFrame) -> ConnectSource:
    """Find the Parquet files that a Connect DataFrame reads.

    Raises
    ------
    Doubt
        It is anything but `spark.read.parquet(...)`, with filters over it or without.
    """
    from ..condition.from_connect import column_of

    relation = _relation(frame)
    conditions: list[Any] = []
    while relation.WhichOneof("rel_type") == "filter":
        conditions.append(column_of(relation.filter.condition))
        relation = relation.filter.input
        if len(conditions) > _MAX_FILTERS:
            raise CannotPush("the DataFrame has too many filters")
    kind = relation.WhichOneof("rel_type")
    if kind != "read":
        raise CannotPush(f"the DataFrame is no plain read of files: {_NAMES.get(kind, str(kind).replace('_', ' '))}")
    read = relation.read
    if read.is_streaming:
        raise CannotPush("the DataFrame is a stream")
    if read.WhichOneof("read_type") != "data_source":
        raise CannotPush("tables by name may have partitions elsewhere and columns by default; read the table's path")
    source = read.data_source
    own = source.format or setting(frame.sparkSession, "spark.sql.sources.default")
    if own.lower() != "parquet":
        raise CannotPush(f"the DataFrame reads {own or 'an unknown format'}, not parquet")
    options = dict(source.options)
    if not source.paths or any(name.lower() in ("path", "paths") for name in options) or source.predicates:
        raise CannotPush("the DataFrame's paths are among its options")
    schema = source.schema or None
    return ConnectSource(_frame(frame, relation), list(source.paths), options, schema, tuple(reversed(conditions)))


_NAMES = {
    "sql": "it is a query",
    "with_relations": "it has subqueries",
    "join": "it is a join",
    "subquery_alias": "it has an alias, which columns may be named by",
    "project": "its columns were chosen",
    "cached_local_relation": "it is local data",
    "local_relation": "it is local data",
    "cached_remote_relation": "it is a checkpoint",
}


def replace_source(frame: DataFrame, source: DataFrame) -> DataFrame:
    """A Connect DataFrame with `source` in the place of the read at its bottom.

    Columns that were taken from the old DataFrame (`df.id`) are understood by the new one, and by what is made of it.

    Parameters
    ----------
    frame : one that `find_source` accepts.
    source : of the same schema.
    """
    relation = _copy(_relation(frame))
    bottom = relation
    while bottom.WhichOneof("rel_type") == "filter":
        bottom = bottom.filter.input
    plan_id = bottom.common.plan_id
    bottom.CopyFrom(_relation(source))
    bottom.common.plan_id = plan_id
    return _frame(frame, relation)


def _relation(frame: Any) -> Any:
    """A DataFrame's plan as the client sends it."""
    return frame._plan.plan(frame.sparkSession.client)


def _copy(message: Any) -> Any:
    made = type(message)()
    made.CopyFrom(message)
    return made


def _frame(like: Any, relation: Any) -> DataFrame:
    """A DataFrame of a plan in Connect's own messages, which keeps the numbers that columns refer to plans by."""
    from pyspark.sql.connect.plan import LogicalPlan

    class Plan(LogicalPlan):
        def __init__(self) -> None:
            super().__init__(None)
            for name in {"_plan_id", "_root_plan_id"} & set(vars(self)):
                setattr(self, name, relation.common.plan_id)

        def plan(self, session: Any) -> Any:
            return relation

    made: DataFrame = type(like)(Plan(), like.sparkSession)
    return made

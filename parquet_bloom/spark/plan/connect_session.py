"""Spark Connect: the files that a DataFrame reads, from the plan that the client sends; the same plan over fewer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from ..session.session_settings import CannotPush, setting

_MAX_FILTERS = 100


@dataclass(frozen=True)
class ConnectSource:
    """The read at the bottom of a Connect DataFrame.

    Attributes
    ----------
    frame : the read without the filters over it.
    paths, options, schema : arguments of the reader; the schema in DDL or JSON, or None.
    conditions : conditions of the filters over it, the innermost first; each a Column.
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
    CannotPush
        It is not `spark.read.parquet(...)`, with or without filters over it.
    """
    from ..condition.from_connect import make_column

    relation = _read_relation(frame)
    conditions: list[Any] = []
    while relation.WhichOneof("rel_type") == "filter":
        conditions.append(make_column(relation.filter.condition))
        relation = relation.filter.input
        if len(conditions) > _MAX_FILTERS:
            raise CannotPush("the DataFrame has too many filters")
    kind = relation.WhichOneof("rel_type")
    if kind != "read":
        description = _RELATIONS.get(kind, str(kind).replace("_", " "))
        raise CannotPush(f"the DataFrame is not a plain read of files: {description}")
    read = relation.read
    if read.is_streaming:
        raise CannotPush("the DataFrame is a stream")
    if read.WhichOneof("read_type") != "data_source":
        raise CannotPush("tables by name may have partitions elsewhere and column defaults; read the table's path")
    source = read.data_source
    file_format = source.format or setting(frame.sparkSession, "spark.sql.sources.default")
    if file_format.lower() != "parquet":
        raise CannotPush(f"the DataFrame reads {file_format or 'an unknown format'}, not parquet")
    options = dict(source.options)
    if not source.paths or any(name.lower() in ("path", "paths") for name in options) or source.predicates:
        raise CannotPush("the DataFrame's paths are among its options")
    schema = source.schema or None
    return ConnectSource(_make_frame(frame, relation), list(source.paths), options, schema, tuple(reversed(conditions)))


_RELATIONS = {
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
    """Replace the read at the bottom of a Connect DataFrame by another DataFrame.

    Columns of the old DataFrame (`df.id`) can still be used with the new one, and with DataFrames derived from it.

    Parameters
    ----------
    frame : one that `find_source` accepts.
    source : a DataFrame of the same schema.
    """
    relation = _copy(_read_relation(frame))
    bottom = relation
    while bottom.WhichOneof("rel_type") == "filter":
        bottom = bottom.filter.input
    plan_id = bottom.common.plan_id
    bottom.CopyFrom(_read_relation(source))
    bottom.common.plan_id = plan_id
    return _make_frame(frame, relation)


def _read_relation(frame: Any) -> Any:
    """Return the plan of a DataFrame as the client sends it."""
    return frame._plan.plan(frame.sparkSession.client)


def _copy(message: Any) -> Any:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _make_frame(like: Any, relation: Any) -> DataFrame:
    """Make a DataFrame from a plan in Connect's messages; it keeps the plan ids that columns refer to."""
    from pyspark.sql.connect.plan import LogicalPlan

    class Plan(LogicalPlan):
        def __init__(self) -> None:
            super().__init__(None)
            for name in {"_plan_id", "_root_plan_id"} & set(vars(self)):
                setattr(self, name, relation.common.plan_id)

        def plan(self, session: Any) -> Any:
            return relation

    frame: DataFrame = type(like)(Plan(), like.sparkSession)
    return frame

"""Options of the data source, with the session's settings as their defaults."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from ...errors import ParquetBloomError, PredicateError, UnknownColumnError
from ...predicate import parse, tree
from ...predicate.tree import And, Node
from ...storage import resolve_filesystem
from ..condition.literals import Coercion, Values, Zone
from ..plan.column_trust import Rules
from ..session.session_settings import CannotPush, SparkField, find_field, setting
from ..spark_partitions import find_zone
from .spark_schema import Inference

_FIRST_YEAR, _LAST_YEAR = 1970, 2037  # within them all time zone databases agree


@dataclass(frozen=True)
class Conjunct:
    """A condition that every requested row meets.

    Attributes
    ----------
    node : the condition.
    fields : {name in the condition: column}.
    """

    node: Node
    fields: Mapping[str, SparkField]


def parse_conjuncts(text: str, schema: StructType, zone: str, ignore_case: bool) -> list[Conjunct]:
    """Parse a condition into conjuncts, with the literals that stored values are compared with.

    Parameters
    ----------
    text : SQL, as after WHERE.
    schema : schema of the rows.
    zone : the session's time zone.

    Raises
    ------
    PredicateError
        It is not understood, or a literal has no exact equivalent.
    UnknownColumnError
        It names a column that does not exist.
    """
    try:
        node = parse(text, "spark")
        parts = node.children if isinstance(node, And) else (node,)
        return [_make_conjunct(part, schema, _NamedZone(zone), ignore_case) for part in parts]
    except CannotPush as doubt:
        raise PredicateError(f"option 'prune': {doubt}") from None
    except ParquetBloomError as error:
        error.problem = f"option 'prune': {error.problem}"
        raise


def _make_conjunct(node: Node, schema: StructType, zone: _NamedZone, ignore_case: bool) -> Conjunct:
    fields = {}
    for name in sorted(tree.columns(node)):
        field = find_field(schema, name, ignore_case)
        if field is None:
            raise UnknownColumnError("no such column", column=name)
        fields[name] = field
    return Conjunct(Coercion(zone).apply(node, fields), fields)


class _NamedZone(Zone):
    """A time zone by its name, without a session."""

    def __init__(self, name: str):
        self._name = name
        try:
            self.is_utc = find_zone(name).utcoffset(None) == dt.timedelta(0)
        except CannotPush:  # matters only for timestamps
            self.is_utc = False

    def instants(self, values: Values, stamp: str) -> list[dt.datetime]:
        """Return wall clocks and days as instants."""
        instants = []
        for value in values:
            clock = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
            if not self.is_utc and not _FIRST_YEAR <= clock.year <= _LAST_YEAR:
                raise CannotPush(f"{value} is outside of the years {_FIRST_YEAR} to {_LAST_YEAR}: write its offset")
            instants.append(clock.replace(tzinfo=find_zone(self._name)).astimezone(dt.UTC))
        return instants


# Option -> the session's setting, and Spark's default. A data source cannot access the session: the settings at the
# time of registration are stored with the source.
_SETTINGS = {
    "caseSensitive": ("spark.sql.caseSensitive", "false"),
    "datetimeRebaseMode": ("spark.sql.parquet.datetimeRebaseModeInRead", "EXCEPTION"),
    "int96RebaseMode": ("spark.sql.parquet.int96RebaseModeInRead", "EXCEPTION"),
    "int96TimestampConversion": ("spark.sql.parquet.int96TimestampConversion", "false"),
    "binaryAsString": ("spark.sql.parquet.binaryAsString", "false"),
    "inferTimestampNTZ": ("spark.sql.parquet.inferTimestampNTZ.enabled", "true"),
    "inferPartitionTypes": ("spark.sql.sources.partitionColumnTypeInference.enabled", "true"),
    "timestampType": ("spark.sql.timestampType", "TIMESTAMP_LTZ"),
    "timeZone": ("spark.sql.session.timeZone", ""),
    "readFieldIds": ("spark.sql.parquet.fieldId.read.enabled", "false"),
    "mergeSchema": ("spark.sql.parquet.mergeSchema", "false"),
}
_OTHER_NAMES = ("path", "paths", "columns", "basePath", "numPartitions", "prune", "parallelism")
_INTERNAL = ("parallelism", "paths", "readFieldIds", "mergeSchema")  # not listed in messages to callers
_STORAGE = "storage."
_NAMES = {name.lower(): name for name in (*_SETTINGS, *_OTHER_NAMES)}
_MAX_TASKS = 1 << 20


def read_settings(spark: SparkSession) -> dict[str, str]:
    """Return a session's settings for options that are not given."""
    settings = {name: setting(spark, key) for name, (key, _) in _SETTINGS.items()}
    return {name: value for name, value in settings.items() if value}


@dataclass(frozen=True)
class Options:
    """Options of one read.

    Attributes
    ----------
    given : options from the caller.
    settings : settings of the session; see `read_settings`.

    Raises
    ------
    ParquetBloomError
        An option is unknown or has an invalid value. No option is ignored, since results could depend on it.
    """

    given: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.given:
            if name.lower() not in _NAMES and not name.lower().startswith(_STORAGE):
                names = ", ".join(name for name in _NAMES.values() if name not in _INTERNAL)
                raise ParquetBloomError(f"there is no option '{name}'; there are {names}, {_STORAGE}NAME of a store")
        if self._is_set("readFieldIds"):
            raise ParquetBloomError(
                "columns cannot be found by field ids: disable spark.sql.parquet.fieldId.read.enabled"
            )
        if self._is_set("mergeSchema"):
            raise ParquetBloomError("files' schemas are not merged: give a schema with all their columns instead")

    def value(self, name: str) -> str:
        """Return an option, or the session's setting, or Spark's default."""
        given = {key.lower(): value for key, value in self.given.items()}
        default = _SETTINGS.get(name, ("", ""))[1]
        return str(given.get(name.lower(), self.settings.get(name, default)))

    def _is_set(self, name: str) -> bool:
        return self.value(name).strip().lower() == "true"

    def _number(self, name: str) -> int | None:
        text = self.value(name)
        if text and not (re.fullmatch("[0-9]{1,9}", text) and 0 < int(text) <= _MAX_TASKS):
            raise ParquetBloomError(f"option '{name}' must be a number from 1 to {_MAX_TASKS:,}, got {text!r}")
        return int(text) if text else None

    @property
    def paths(self) -> list[str]:
        """The given paths."""
        json_paths = self.value("paths")
        paths = [*([self.value("path")] if self.value("path") else []), *(json.loads(json_paths) if json_paths else [])]
        if not paths:
            raise ParquetBloomError("no path is given")
        return paths

    @property
    def base_path(self) -> str | None:
        """The folder below which partition folders begin."""
        return self.value("basePath") or None

    @property
    def columns(self) -> list[str] | None:
        """The columns to return: separated by commas, or a JSON list of strings; None for all."""
        text = self.value("columns").strip()
        if not text:
            return None
        if not text.startswith("["):
            return [name.strip() for name in text.split(",")]
        problem = ParquetBloomError(f"option 'columns' is not a list of names: {text}")
        try:
            names: list[str] = json.loads(text)
        except ValueError:
            raise problem from None
        if not names or not all(isinstance(name, str) for name in names):
            raise problem
        return names

    @property
    def num_tasks(self) -> int | None:
        """The requested number of tasks, if given."""
        return self._number("numPartitions")

    @property
    def parallelism(self) -> int | None:
        """The number of tasks that run at a time, if known."""
        return self._number("parallelism")

    @property
    def prune(self) -> str:
        """The condition that rows must meet; empty for none."""
        return self.value("prune").strip()

    @property
    def rules(self) -> Rules:
        """The rules by which Spark reads files."""
        return Rules(
            ignore_case=not self._is_set("caseSensitive"),
            legacy_days=self.value("datetimeRebaseMode").upper() == "LEGACY",
            legacy_int96=self.value("int96RebaseMode").upper() == "LEGACY",
            shifts_int96=self._is_set("int96TimestampConversion"),
        )

    @property
    def inference(self) -> Inference:
        """The rules by which Spark infers types."""
        return Inference(self._is_set("binaryAsString"), self._is_set("inferTimestampNTZ"))

    @property
    def infers_partitions(self) -> bool:
        """Return whether partition columns may have other types than string."""
        return self._is_set("inferPartitionTypes")

    @property
    def zone(self) -> str:
        """The session's time zone."""
        return self.value("timeZone")

    @property
    def wall_clock(self) -> bool:
        """Return whether timestamps in folder names are TIMESTAMP_NTZ."""
        return self.value("timestampType").upper() == "TIMESTAMP_NTZ"

    @property
    def storage_options(self) -> dict[str, str]:
        """Options of object stores."""
        return {name[len(_STORAGE) :]: value for name, value in self.given.items() if name.lower().startswith(_STORAGE)}

    @property
    def filesystem(self) -> Any:
        """The file system of the paths; None for local paths and URLs without options."""
        return resolve_filesystem(None, self.storage_options)

"""Options of the data source, and the session's settings that stand behind them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from ...errors import ParquetBloomError
from ...storage import resolve_filesystem
from ..scan.parquet_columns import Rules
from ..session.settings import setting
from .schema import Inference

# Option -> the setting that it stands for, and Spark's default. A data source sees no session: what it was when the
# source was registered is kept with the source.
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
_OTHERS = ("path", "paths", "columns", "basePath", "numPartitions", "prune", "parallelism")
_OWN = ("parallelism", "paths", "readFieldIds", "mergeSchema")  # of which callers need not know
_STORAGE = "storage."
_KNOWN = {name.lower(): name for name in (*_SETTINGS, *_OTHERS)}
_MOST_TASKS = 1 << 20


def settings_of(spark: SparkSession) -> dict[str, str]:
    """What a session's settings make of the options that are not given."""
    found = {name: setting(spark, key) for name, (key, _) in _SETTINGS.items()}
    return {name: value for name, value in found.items() if value}


@dataclass(frozen=True)
class Options:
    """Options of one read.

    Attributes
    ----------
    given : as the caller gave them.
    settings : of the session; see `settings_of`.

    Raises
    ------
    ParquetBloomError
        An option is not known, or has a value that cannot be. None is passed over, as rows could hang on it.
    """

    given: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.given:
            if name.lower() not in _KNOWN and not name.lower().startswith(_STORAGE):
                known = ", ".join(name for name in _KNOWN.values() if name not in _OWN)
                raise ParquetBloomError(f"there is no option '{name}'; there are {known}, {_STORAGE}NAME of a store")
        if self._is_set("readFieldIds"):
            raise ParquetBloomError("columns are found by their names, and not by field ids as the session asks for")
        if self._is_set("mergeSchema"):
            raise ParquetBloomError("files' schemas are not merged: give a schema with all their columns instead")

    def value(self, name: str) -> str:
        """An option, or the session's setting, or Spark's default."""
        own = {key.lower(): value for key, value in self.given.items()}
        default = _SETTINGS.get(name, ("", ""))[1]
        return str(own.get(name.lower(), self.settings.get(name, default)))

    def _is_set(self, name: str) -> bool:
        return self.value(name).strip().lower() == "true"

    def _number(self, name: str) -> int | None:
        text = self.value(name)
        if text and not (re.fullmatch("[0-9]{1,9}", text) and 0 < int(text) <= _MOST_TASKS):
            raise ParquetBloomError(f"option '{name}' is a number from 1 to {_MOST_TASKS:,}, not {text!r}")
        return int(text) if text else None

    @property
    def paths(self) -> list[str]:
        """The paths given."""
        several = self.value("paths")
        found = [*([self.value("path")] if self.value("path") else []), *(json.loads(several) if several else [])]
        if not found:
            raise ParquetBloomError("no path is given")
        return found

    @property
    def base_path(self) -> str | None:
        """Where partitions' folders begin."""
        return self.value("basePath") or None

    @property
    def columns(self) -> list[str] | None:
        """The columns wanted: separated by commas, or a JSON list of texts; None for all."""
        text = self.value("columns").strip()
        if not text:
            return None
        if not text.startswith("["):
            return [name.strip() for name in text.split(",")]
        try:
            names = json.loads(text)
        except ValueError:
            names = [None]
        if not names or not all(isinstance(name, str) for name in names):
            raise ParquetBloomError(f"option 'columns' is no list of names: {text}")
        return names

    @property
    def num_tasks(self) -> int | None:
        """How many tasks are wanted, if that was said."""
        return self._number("numPartitions")

    @property
    def parallelism(self) -> int | None:
        """How many tasks run at a time, if that is known."""
        return self._number("parallelism")

    @property
    def prune(self) -> str:
        """What rows have to meet; empty for nothing."""
        return self.value("prune").strip()

    @property
    def rules(self) -> Rules:
        """How Spark reads files."""
        return Rules(
            ignore_case=not self._is_set("caseSensitive"),
            legacy_days=self.value("datetimeRebaseMode").upper() == "LEGACY",
            legacy_int96=self.value("int96RebaseMode").upper() == "LEGACY",
            shifts_int96=self._is_set("int96TimestampConversion"),
        )

    @property
    def inference(self) -> Inference:
        """How Spark infers types."""
        return Inference(self._is_set("binaryAsString"), self._is_set("inferTimestampNTZ"))

    @property
    def infers_partitions(self) -> bool:
        """Whether partition columns have other types than string."""
        return self._is_set("inferPartitionTypes")

    @property
    def zone(self) -> str:
        """The session's time zone."""
        return self.value("timeZone")

    @property
    def wall_clock(self) -> bool:
        """Whether timestamps in the names of folders are TIMESTAMP_NTZ."""
        return self.value("timestampType").upper() == "TIMESTAMP_NTZ"

    @property
    def storage_options(self) -> dict[str, str]:
        """Options of object stores."""
        return {name[len(_STORAGE) :]: value for name, value in self.given.items() if name.lower().startswith(_STORAGE)}

    @property
    def filesystem(self) -> Any:
        """What `storage` takes for the stores; None for local paths and URLs without options."""
        return resolve_filesystem(None, self.storage_options)

"""Pruning without a plan at hand, as in Spark Connect: the files that are left are read anew, in the same way."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ...errors import ParquetBloomError
from ...predicate import tree
from ..arrow.row_groups import plan_pieces, read_pieces
from ..condition.condition import Condition
from ..partitions.layout import FoldersLeft, Layout, find_layout
from ..scan.parquet_columns import Rules, refuse_field_ids
from ..scan.planner import ScanPlanner
from ..scan.scan import Scan
from ..scan.trust import SparkCompatibility
from ..session.fallback import CannotPush, log
from ..session.fields import Field, only
from ..session.paths import file_uri, listed_path
from ..session.settings import ignores_case, setting

_LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_listing_lock = threading.Lock()


@dataclass
class Reread:
    """A DataFrame that is known to read some paths, and nothing else.

    Attributes
    ----------
    frame : the DataFrame: all rows of the paths.
    paths, options : what the reader was given.
    """

    frame: DataFrame
    paths: Sequence[str]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spark(self) -> SparkSession:
        return self.frame.sparkSession

    @property
    def schema(self) -> StructType:
        return self.frame.schema

    def trust(self, fields: Mapping[str, Field], layout: Layout) -> SparkCompatibility:
        """What Spark makes of the columns of a file.

        Parameters
        ----------
        fields : those that are asked for, by their names in the condition.
        """
        return SparkCompatibility.of(fields, Rules.of(self.spark, self.options))

    def refuse(self) -> None:
        """Raise Doubt where Spark finds columns in files in another way than is known here."""
        refuse_field_ids(self.spark)

    def scan(self, condition: Condition, probing: ScanPlanner) -> tuple[Scan, Layout]:
        """Decide file by file.

        Raises
        ------
        Doubt
        """
        if condition.node is None or condition.fields is None:
            raise CannotPush(condition.doubt)
        self.refuse()
        ignore_case = ignores_case(self.spark)
        uris = self.frame.inputFiles()
        try:
            layout = find_layout(sorted(map(listed_path, uris)), self.paths, self.options, self.schema, ignore_case)
            inside = {name: item for name, item in condition.fields.items() if item.path[0] not in layout.columns}
            trust = self.trust(inside, layout)
            left = FoldersLeft(condition.node, condition.fields, layout, self.schema)
            options = {name: str(value) for name, value in self.options.items()}
            scan = probing.scan(self.spark, uris, condition.node, trust, options=options, residuals=left)
            # By the paths that layout and Spark's reader know, whatever they are called in the store.
            decisions = zip(uris, scan.report.files, strict=True)
            scan.report.files = [replace(decision, path=listed_path(uri)) for uri, decision in decisions]
        except ParquetBloomError as error:
            raise CannotPush(str(error)) from error
        return scan, layout

    def narrowed(self, condition: Condition, probing: ScanPlanner, names: Sequence[str]) -> DataFrame:
        """A DataFrame with all rows that match, and as few others as can be; the condition is not applied.

        Raises
        ------
        Doubt
        """
        scan, layout = self.scan(condition, probing)
        report = scan.report
        if not report.selected:
            return self.frame.where(F.lit(False))
        few = 2 * report.selected_row_groups <= report.total_row_groups
        if probing.row_groups is True and not scan.unreadable and few:
            try:
                return self._row_groups(scan, condition, layout, names)
            except CannotPush as doubt:
                log.warning("whole files are read, not row groups: %s", doubt)
        # Spark may only trust filters as far as they can be: of zero and NaN other writers know one form of several.
        trusted = not (scan.untrusted or condition.meets_zero_or_nan)
        if trusted and report.selected_files > probing.max_fraction * report.total_files:
            return self.frame
        return self._files(list(report.selected), layout, trusted)

    def _files(self, files: Sequence[str], layout: Layout, trusted: bool) -> DataFrame:
        options = {} if trusted else {"parquet.filter.bloom.enabled": "false"}
        return self.read("parquet", files, layout, options)

    def read(self, kind: str, files: Sequence[str], layout: Layout, options: Mapping[str, str]) -> DataFrame:
        """Spark's scan of some of the files.

        Parameters
        ----------
        kind : their format.
        options : for the reader, beside those that it has.

        Raises
        ------
        Doubt
            Spark makes something else of them.
        """
        reader = self.spark.read.schema(self.schema).options(**self.options).options(**options)
        if layout.base_path is not None and not any(name.lower() == "basepath" for name in self.options):
            reader = reader.option("basePath", layout.base_path)
        with _listed_by_driver(self.spark, len(files)):
            frame = reader.format(kind).load(list(map(file_uri, files)))
            frame = only(frame, self.schema.names)
            same = frame.schema == self.schema
        if not same:
            raise CannotPush("Spark makes another schema of some of the files than of all")
        return frame

    def _row_groups(self, scan: Scan, condition: Condition, layout: Layout, names: Sequence[str]) -> DataFrame:
        assert condition.node is not None
        assert condition.fields is not None
        rules = Rules.of(self.spark, self.options)
        asked = {condition.fields[name].path[0] for name in tree.columns(condition.node)}
        fields = [item for item in self.schema.fields if item.name in asked.union(names)]
        in_files = [item for item in fields if item.name not in layout.columns]
        in_folders = [self.schema[name] for name in layout.columns]
        if not in_files:
            raise CannotPush("no column of the files is asked for")
        pieces = plan_pieces(scan.report.selected, dict(layout.values), in_files, rules)
        wanted = [item.name for item in fields]
        return read_pieces(self.spark, pieces, in_files, in_folders, wanted, rules.ignore_case)


@contextmanager
def _listed_by_driver(spark: SparkSession, num_paths: int) -> Iterator[None]:
    """Keep Spark from starting a job to list files that are known; the setting is put back."""
    with _listing_lock:
        before = spark.conf.get(_LISTING, None)
        if num_paths <= int(setting(spark, _LISTING) or 0):
            yield
            return
        spark.conf.set(_LISTING, str(num_paths))
        try:
            yield
        finally:
            if before is None:
                spark.conf.unset(_LISTING)
            else:
                spark.conf.set(_LISTING, before)

"""What a picture shows beyond the report: sizes, where filters are and how good, and what matched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...errors import ParquetBloomError
from ...file.cache.memory import SHARED_CACHE
from ...file.reader import BloomFile
from ...file.statistics import file_statistics
from ...metadata.footer import Leaf
from ...predicate import tree
from ...predicate.tree import Contains, Equal, In
from ..model.decision import FilePlan, ScanPlan
from ..read.open import open_file
from ..read.parquet import ParquetData
from ..read.reader import match_counter

if TYPE_CHECKING:
    from ...orc import OrcFile

MEASURED = 500
"""Filters that are read whole, at most: evenly spread over the row groups."""

MEASURED_BYTES = 64 * 1024 * 1024
"""Bytes of filters that are read, at most."""


class Measured(NamedTuple):
    """A filter that was read.

    Attributes
    ----------
    num_bytes : of its bitset.
    fpp, ndv : false-positive probability and number of distinct values, estimated from the bits that are set.
    """

    num_bytes: int
    fpp: float
    ndv: float


class RowGroupLook(NamedTuple):
    """One row group.

    Attributes
    ----------
    num_bytes : of its column chunks, as they are stored; in ORC files its share of the stripe.
    asked_bytes : of the chunks of the predicate's columns; 0 where that is not known.
    filtered : whether a column that filters are asked about has one; None if they are asked about none.
    matches : rows that match; None if they were not counted.
    filters : {column: its filter} of those that were read.
    """

    num_bytes: int
    asked_bytes: int
    filtered: bool | None
    matches: int | None
    filters: dict[str, Measured]


@dataclass
class PlanDetails:
    """What was found.

    Attributes
    ----------
    files : {path: its row groups}; a file that is another one by now, or cannot be read, is missing.
    problems : why files are missing, or their matches.
    num_filters : {column: row groups that have a filter on it}.
    checked : whether matches were counted.
    seconds : that it took to count them.
    """

    files: dict[str, list[RowGroupLook]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    num_filters: dict[str, int] = field(default_factory=dict)
    checked: bool = False
    seconds: float = 0.0

    def measured(self, column: str) -> list[Measured]:
        """The filters of a column that were read."""
        groups = (group for of_file in self.files.values() for group in of_file)
        return [group.filters[column] for group in groups if column in group.filters]


def look(report: ScanPlan, check: bool = False, progress: Callable[[int, int], None] | None = None) -> PlanDetails:
    """Look at the files of a report again.

    Parameters
    ----------
    report : of `prune`.
    check : also read the predicate's columns in the selected row groups, and count the rows that match.
    progress : called after each file with (done, in all).
    """
    asked = report.asked
    assert asked is not None, "the report is not prune's"
    names = sorted(tree.columns(asked.node))
    equalities = {leaf.column for leaf in tree.leaves(asked.node) if isinstance(leaf, Equal | In | Contains)}
    of_folders = {report.partitions.spelled(name, asked.ignore_case): name for name in equalities}
    askable = sorted(name for own, name in of_folders.items() if own not in report.partitions.schema.names)
    found = PlanDetails(checked=check)
    sample = _Sample(max(1, report.total_row_groups * max(1, len(askable))))
    count = match_counter(report) if check else None
    for done, decision in enumerate(report.files):
        if not decision.unopened:
            try:
                matches = _counted(count, decision, found)
                with open_file(decision.path, report.filesystem, SHARED_CACHE) as data:
                    if decision.identity in (None, data.source.identity):
                        options = names, askable, asked.ignore_case, matches, sample, found
                        if isinstance(data, ParquetData):
                            found.files[decision.path] = _of_parquet(data.file, *options)
                        else:
                            found.files[decision.path] = _of_orc(data.file, *options)
                    else:
                        found.problems.append(f"{decision.path}: it was replaced meanwhile")
            except ParquetBloomError as error:
                found.problems.append(str(error))
        if progress:
            progress(done + 1, len(report.files))
    return found


def _counted(
    count: Callable[[FilePlan], dict[int, int]] | None, decision: FilePlan, found: PlanDetails
) -> dict[int, int]:
    if count is None or not decision.selected:
        return {}
    started = time.perf_counter()
    try:
        return count(decision)
    except ParquetBloomError as error:
        found.problems.append(str(error))
        return {}
    finally:
        found.seconds += time.perf_counter() - started


class _Sample:
    """Says which filters are read."""

    def __init__(self, num_filters: int):
        self._stride = -(-num_filters // MEASURED)
        self._number = -1
        self._left = MEASURED_BYTES

    def takes(self) -> bool:
        self._number += 1
        return self._number % self._stride == 0

    def affords(self, num_bytes: int) -> bool:
        if num_bytes > self._left:
            return False
        self._left -= num_bytes
        return True


def _of_parquet(
    file: BloomFile,
    names: Sequence[str],
    askable: Sequence[str],
    ignore_case: bool,
    matches: dict[int, int],
    sample: _Sample,
    found: PlanDetails,
) -> list[RowGroupLook]:
    facts = file_statistics(file, names, ignore_case)
    leaves = {name: column.leaf for name, column in facts.columns.items() if column is not None}
    count = file.num_row_groups
    num_bytes = _bytes(file, count, None)
    asked_bytes = _bytes(file, count, [leaf.index for leaf in leaves.values()])
    has = {name: facts.columns[name] for name in askable if name in leaves}
    filtered = {name: column.evidence.filtered for name, column in has.items() if column is not None}
    for name, of_column in filtered.items():
        found.num_filters[name] = found.num_filters.get(name, 0) + int(of_column.sum())
    return [
        RowGroupLook(
            num_bytes[row_group],
            asked_bytes[row_group],
            any(bool(of_column[row_group]) for of_column in filtered.values()) if askable else None,
            matches.get(row_group),
            dict(
                _measured(
                    file, row_group, {name: leaves[name] for name in filtered if filtered[name][row_group]}, sample
                )
            ),
        )
        for row_group in file.row_groups
    ]


def _of_orc(
    file: OrcFile,
    names: Sequence[str],
    askable: Sequence[str],
    ignore_case: bool,
    matches: dict[int, int],
    sample: _Sample,
    found: PlanDetails,
) -> list[RowGroupLook]:
    """Row groups of an ORC file. Of a stripe's bytes each has the share that it has of the rows."""
    # Not at the top: a lake without ORC files does without.
    from ..evaluate.orc import orc_statistics as facts_of_orc

    facts = facts_of_orc(file, names, ignore_case)
    leaves = {name: leaf for name in askable if (leaf := facts.columns.get(name)) is not None}
    known = file.row_group_evidence(list(leaves.values()), range(len(file.stripes))) if leaves else {}
    looks = []
    for row_group in file.row_groups:
        stripe = file.stripes[row_group.stripe]
        num_bytes = stripe.data_length * row_group.num_rows // max(1, stripe.num_rows)
        filtered = {
            name: leaf
            for name, leaf in leaves.items()
            if known[stripe.number, leaf.column_id][row_group.row_group].filtered
        }
        for name in leaves:
            found.num_filters[name] = found.num_filters.get(name, 0) + (name in filtered)
        measured: dict[str, Measured] = {}
        for name, leaf in filtered.items() if sample.takes() else ():
            one = file.filters_of(leaf, stripe.number)[row_group.row_group]
            if one is not None and one.trusted and sample.affords(one.num_bits // 8):
                measured[name] = Measured(one.num_bits // 8, one.fpp, one.ndv_estimate)
        is_filtered = bool(filtered) if askable else None
        looks.append(RowGroupLook(num_bytes, 0, is_filtered, matches.get(row_group.number), measured))
    return looks


def _bytes(file: BloomFile, count: int, columns: list[int] | None) -> list[int]:
    """Bytes of some columns' chunks, or of all, in each row group."""
    chunks = file.footer.chunks
    if columns is not None:
        chunks = chunks[np.isin(chunks["column"], columns)]
    sizes = np.maximum(chunks["compressed_size"], 0)
    inside = (chunks["row_group"] >= 0) & (chunks["row_group"] < count)
    found = np.bincount(chunks["row_group"][inside], sizes[inside].astype(float), minlength=count)
    return [int(number) for number in found]


def _measured(
    file: BloomFile, row_group: int, leaves: dict[str, Leaf], sample: _Sample
) -> Iterator[tuple[str, Measured]]:
    for name, leaf in leaves.items():
        if not sample.takes():
            continue
        try:
            chunk = file.chunk(row_group, leaf)
            if chunk is not None and sample.affords(chunk.num_bytes):
                yield name, Measured(chunk.num_bytes, chunk.fpp, chunk.ndv_estimate)
        except ParquetBloomError:
            continue  # a filter that cannot be used has no fpp; that it is doubtful is told where it was asked

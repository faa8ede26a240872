"""Which of a DataFrame's files and row groups can hold a match: folders first, then footers and filters."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

from pyspark.sql.types import StructType

from ..errors import ParquetBloomError
from ..file.facts import facts_of
from ..file.reader import BloomFile, open
from ..predicate.decide import Decider, Verdict
from ..predicate.evidence import Evidence
from ..prune.evidence import ask_file, has_broken_filter, judge
from ..prune.report import FileDecision, PruneReport, RowGroupDecision
from ..threads import in_order
from .condition import Condition
from .fields import Field
from .files import NO_COLUMN, Rules, column_doubt
from .layout import Layout

_THREADS = 8  # they wait for storage more than they compute
_FILES_A_THREAD = 8  # less is not worth a thread


@dataclass
class Scan:
    """What pruning found.

    Attributes
    ----------
    report : a decision for each file that was opened.
    other_partitions : files whose partition rules them out; they were not opened.
    unreadable : {file: problem} of files that are left to Spark.
    untrusted : whether filters among the selected row groups may mislead Spark's own tasks: they are broken, or their
        column is shown as something else than it is stored as.
    """

    report: PruneReport
    other_partitions: list[str] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    untrusted: bool = False

    def __str__(self) -> str:
        others = len(self.other_partitions)
        return str(self.report) + (f"; {others:,} files are in other partitions" if others else "")


def scan_files(files: Sequence[str], condition: Condition, schema: StructType, layout: Layout, rules: Rules) -> Scan:
    """Decide file by file; a file that cannot be read is selected, so that Spark says what is wrong."""
    assert condition.node is not None
    assert condition.fields is not None
    decider = Decider(condition.node)
    fields = {name: field for name, field in condition.fields.items() if field.path[0] not in layout.columns}
    scan = Scan(PruneReport(str(condition.node)))
    inside: list[tuple[str, dict[str, Evidence | None]]] = []
    verdicts: dict[tuple[str | None, ...], tuple[bool, dict[str, Evidence | None]]] = {}
    for file in files:
        values = layout.values.get(file, ())
        if values not in verdicts:
            known = layout.evidence(file, schema)
            of_folder = {name: known.get(item.path[0]) for name, item in condition.fields.items()}
            verdicts[values] = decider.decide(of_folder).possible, of_folder
        possible, of_folder = verdicts[values]
        if possible:
            inside.append((file, of_folder))
        else:
            scan.other_partitions.append(file)
    look = partial(_decide_file, fields=fields, decider=decider, rules=rules)
    threads = min(_THREADS, len(inside) // _FILES_A_THREAD)
    with in_order(look, inside, threads) if threads > 1 else nullcontext(map(look, inside)) as decisions:
        for decision, problem, untrusted in decisions:
            scan.report.files.append(decision)
            scan.untrusted |= untrusted
            if problem:
                scan.unreadable[decision.path] = problem
    return scan


def _decide_file(
    item: tuple[str, dict[str, Evidence | None]], fields: dict[str, Field], decider: Decider, rules: Rules
) -> tuple[FileDecision, str | None, bool]:
    """The decision on a file, why it cannot be read, and whether its filters may mislead Spark."""
    path, of_folder = item
    try:
        with open(path) as file:
            return _decide_row_groups(file, of_folder, fields, decider, rules)
    except ParquetBloomError as error:
        unknown = RowGroupDecision(0, True, doubts=(error.problem,))
        return FileDecision(path, (unknown,)), error.problem, False


def _decide_row_groups(
    file: BloomFile, of_folder: dict[str, Evidence | None], fields: dict[str, Field], decider: Decider, rules: Rules
) -> tuple[FileDecision, str | None, bool]:
    doubts = {name: column_doubt(file, field, rules) for name, field in fields.items()}
    trusted = [name for name, doubt in doubts.items() if doubt is None]
    noted = tuple(f"'{name}': {doubt}" for name, doubt in doubts.items() if doubt is not None)
    facts = facts_of(file, trusted, rules.ignore_case)
    numbers = judge(facts, decider, ask_file(file, facts), of_folder)
    decisions, untrusted = [], any(doubt not in (None, NO_COLUMN) for doubt in doubts.values())
    for row_group, number in enumerate(numbers.tolist()):
        num_rows = file.footer.num_rows_of(row_group)
        if num_rows == 0:
            decisions.append(RowGroupDecision(row_group, False, frozenset({"empty"}), "it has no rows"))
            continue
        decisions.append(_decision(row_group, num_rows, decider.verdict(number), noted, doubts))
    selected = [decision.row_group for decision in decisions if decision.read]
    return FileDecision(file.path, tuple(decisions)), None, untrusted or has_broken_filter(file, facts, selected)


def _decision(
    row_group: int, num_rows: int, verdict: Verdict, noted: tuple[str, ...], doubts: dict[str, str | None]
) -> RowGroupDecision:
    found: tuple[str, ...] = ()
    if verdict.possible:
        # What the decider calls missing was held back, or is a partition's; why stands in `noted`.
        found = noted + tuple(text for text in verdict.doubts if not text.endswith(NO_COLUMN))
    return RowGroupDecision(row_group, verdict.possible, verdict.by, verdict.reason, found, num_rows)

"""Check an index: verify the checksums of its parts, and look up every value of a sample of files."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from ..errors import ParquetBloomError
from ..storage import Entry
from .files.hash_files import hash_row_group, open_to_index
from .files.table import NOT_COVERED
from .reports import CheckReport
from .segment import Segment
from .snapshot import IndexSnapshotReader


def check(
    state: IndexSnapshotReader, filesystem: object | None, sample: int, progress: Callable[[int, int], None] | None
) -> CheckReport:
    """See `LakeIndex.check`."""
    report = CheckReport()
    chosen = [
        (segment, int(number))
        for segment, alive in zip(state.segments, state.live.alive, strict=True)
        for number in np.flatnonzero(alive & (segment.files.sizes >= 0))
    ]
    chosen = random.sample(chosen, min(sample, len(chosen)))
    parts = [part for segment in state.segments for part in segment.parts]
    total, done = len(parts) + len(chosen), 0
    for part in parts:
        try:
            for reader in part.readers:
                report.problems += reader.check()
        except ParquetBloomError as error:
            report.problems.append(str(error))
        done += 1
        if progress:
            progress(done, total)
    for segment, number in chosen:
        try:
            _check_file(state, segment, number, filesystem, report)
        except ParquetBloomError as error:
            report.problems.append(str(error))
        report.files += 1
        done += 1
        if progress:
            progress(done, total)
    return report


def _check_file(
    state: IndexSnapshotReader, segment: Segment, number: int, filesystem: object | None, report: CheckReport
) -> None:
    """Read a file again, and look up all of its values."""
    path = segment.files.path(number)
    foreign, units = state.live.foreign[state.segments.index(segment)], state.manifest.units
    opened = open_to_index(Entry(path), state.manifest.columns, filesystem, state.live.table_columns)
    with opened.file.source:
        if segment.files.fingerprints(number) != (opened.footer, opened.data_fingerprint()):
            report.problems.append(f"{path}: it is not what was indexed any more")
            return
        first = int(segment.files.first_units[number])
        for column, covered in opened.columns.items():
            part_number = int(segment.files.parts(column)[number])
            if part_number == NOT_COVERED or part_number in foreign:
                continue
            part = segment.parts[part_number]
            for row_group in opened.file.row_groups:
                unit = first + units.find_first(row_group, opened.row_counts)
                lost = total = 0
                for i, hashes in enumerate(hash_row_group(covered, row_group, units.zone_rows)):
                    matches = part.find(hashes)
                    hit = np.zeros(len(hashes), np.bool_)
                    hit[matches.queries[matches.units == unit + i]] = True
                    hit[list(matches.unknown)] = True
                    lost, total = lost + int((~hit).sum()), total + len(hashes)
                report.values += total
                if lost:
                    problem = f"{lost:,} of {total:,} values are not found"
                    error = ParquetBloomError(problem, path=path, row_group=row_group, column=column)
                    report.problems.append(str(error))

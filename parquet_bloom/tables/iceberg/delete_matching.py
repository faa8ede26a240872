"""Find which delete files apply to which data files, by the rules of the Iceberg specification.

Positions and vectors apply to data files of the same or an earlier sequence number, equality deletes to those of an
earlier one; a file of an unpartitioned spec with equality deletes applies to all partitions, any other delete file to
its own partition of its own spec. A deletion vector replaces the files of positions for its data file.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...util.lazy import late_module
from ..table_locations import without_scheme
from .manifests import EQUALITY_DELETES, POSITION_DELETES, UNKNOWN_SEQUENCE, DeleteFile, Manifests, Partition

if TYPE_CHECKING:
    import pyiceberg.transforms as transforms
    from pyiceberg.partitioning import PartitionSpec
else:
    transforms = late_module("pyiceberg.transforms")


class AppliedDeletes(NamedTuple):
    """The delete files of one data file; the problem, if there is one, why they cannot be determined."""

    vector: DeleteFile | None
    positions: tuple[DeleteFile, ...]
    equality: tuple[DeleteFile, ...]
    problem: str | None = None


class _Ordered:
    """Delete files by sequence number. The results for one number are one object, as many data files share them."""

    def __init__(self, files: Iterable[DeleteFile]) -> None:
        self._files = sorted(files, key=lambda file: (file.sequence_number, file.path))
        self._numbers = [file.sequence_number for file in self._files]
        self._known: dict[int, tuple[DeleteFile, ...]] = {}

    def starting_at(self, number: int) -> tuple[DeleteFile, ...]:
        """Return the files of this sequence number or a later one."""
        return self._from(bisect_left(self._numbers, number))

    def after(self, number: int) -> tuple[DeleteFile, ...]:
        """Return the files of later sequence numbers."""
        return self._from(bisect_right(self._numbers, number))

    def _from(self, start: int) -> tuple[DeleteFile, ...]:
        if start not in self._known:
            self._known[start] = tuple(self._files[start:])
        return self._known[start]


_NONE = _Ordered(())


def match_deletes(manifests: Manifests, specs: Mapping[int, PartitionSpec]) -> dict[int, AppliedDeletes]:
    """Return the delete files that apply, by the number of the data file in `manifests`.

    Parameters
    ----------
    manifests : the files of a snapshot.
    specs : the table's partition specs, pyiceberg's, by id.
    """
    if not manifests.deletes:
        return {}
    vectors: defaultdict[str, list[DeleteFile]] = defaultdict(list)
    by_path: defaultdict[str, list[DeleteFile]] = defaultdict(list)
    by_partition: defaultdict[Partition, list[DeleteFile]] = defaultdict(list)
    equality: defaultdict[Partition, list[DeleteFile]] = defaultdict(list)
    everywhere: list[DeleteFile] = []
    plain_paths = {without_scheme(path) for path in manifests.paths}
    for file in manifests.deletes:
        if file.content == EQUALITY_DELETES:
            (everywhere if _is_unpartitioned(specs[file.partition[0]]) else equality[file.partition]).append(file)
        elif file.content != POSITION_DELETES:
            everywhere.append(file)  # reading it fails, by name
        elif file.file_format == "PUFFIN":
            vectors[without_scheme(file.referenced or "")].append(file)
        elif (target := _find_target(file, plain_paths)) is not None:
            by_path[target].append(file)
        else:
            by_partition[file.partition].append(file)
    path_deletes = {path: _Ordered(files) for path, files in by_path.items()}
    partition_deletes = {partition: _Ordered(files) for partition, files in by_partition.items()}
    equality_deletes = {partition: _Ordered([*files, *everywhere]) for partition, files in equality.items()}
    global_deletes = _Ordered(everywhere)
    unknown = any(file.sequence_number == UNKNOWN_SEQUENCE for file in manifests.deletes)
    unreferenced = bool(vectors.get(""))
    result = {}
    for row, written in enumerate(manifests.paths):
        path, number, partition = (
            without_scheme(written),
            manifests.sequence_numbers[row],
            manifests.partitions[row],
        )
        of_path = path_deletes.get(path, _NONE).starting_at(number)
        of_partition = partition_deletes.get(partition, _NONE).starting_at(number)
        by_values = equality_deletes.get(partition, global_deletes).after(number)
        positions = (*of_path, *(file for file in of_partition if may_name(file, written))) if of_partition else of_path
        problem = None
        vector = None
        if unknown or number == UNKNOWN_SEQUENCE:
            problem = "a manifest does not say in which order files and deletes were added"
        elif unreferenced:
            problem = "a deletion vector does not name its data file"
        elif path in vectors:
            vector, problem = _choose_vector(vectors[path], number, partition)
            positions = ()
        if problem is None:
            stray = next((file for file in positions if file.partition != partition), None)
            problem = stray and f"{stray.path} names the file, but is of another partition"
        if vector or positions or by_values or problem:
            result[row] = AppliedDeletes(vector, positions, by_values, problem)
    return result


def may_name(file: DeleteFile, path: str) -> bool:
    """Return whether a file of positions may have some of a data file, by the bounds of its paths."""
    if file.lower is None or file.upper is None:
        return True
    plain = without_scheme(path)
    forms = {path, plain} | ({f"file://{plain}", f"file:{plain}"} if plain.startswith("/") else set())
    return any(_is_within(form.encode(), file.lower, file.upper) for form in forms)


def _is_within(path: bytes, lower: bytes, upper: bytes) -> bool:
    """Return whether a path is within bounds; the upper one may be cut, and need not have been rounded up."""
    return lower <= path and (path <= upper or path.startswith(upper))


def _find_target(file: DeleteFile, paths: Collection[str]) -> str | None:
    """Return the one data file that a file of positions is for, without its scheme; None for many.

    Parameters
    ----------
    paths : the data files. Bounds that are equal, and none of these, may have been cut.
    """
    if file.referenced is not None:
        return without_scheme(file.referenced)
    if file.lower is not None and file.lower == file.upper:
        target = without_scheme(file.lower.decode("utf-8", "surrogateescape"))
        return target if target in paths else None
    return None


def _choose_vector(files: list[DeleteFile], number: int, partition: Partition) -> tuple[DeleteFile, str | None]:
    """Return the deletion vector of a data file, and why it cannot be applied, if so."""
    file = files[0]
    if len(files) > 1:
        return file, f"it has {len(files)} deletion vectors, {file.path} being one"
    if file.sequence_number < number:
        return file, f"its deletion vector in {file.path} is older than the file"
    if file.partition != partition:
        return file, f"its deletion vector in {file.path} is of another partition"
    return file, None


def _is_unpartitioned(spec: PartitionSpec) -> bool:
    return all(isinstance(each.transform, transforms.VoidTransform) for each in spec.fields)

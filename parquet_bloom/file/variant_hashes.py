"""Distinct hashes of what Variants have at a path, as stored in an index over many files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..core.bloom.distinct import HashSet
from ..errors import (
    ParquetBloomError,
    UnknownColumnError,
    UnreadableColumnError,
    UnsupportedTypeError,
    VariantCastError,
)
from ..hashing.arrow_keys import to_storage
from ..hashing.column_type import ColumnType, Kind, from_arrow
from ..metadata.footer import REPEATED, REQUIRED, SchemaLeaf, read_repetition
from ..metadata.thrift_compact import I32
from ..predicate.calls import OTHER
from ..predicate.key_expression import KeyExpression
from ..predicate.variant_names import to_arrow_type
from ..util.arrow_values import from_numpy, to_numpy
from ..variant.variant_path import VariantPath
from ..variant.variant_values import extract
from .bloom_file import BloomFile
from .column_hashes import ColumnHashes, ZoneHashes, add_hashes, align_rows, count_values
from .column_reader import BATCH_ROWS, ColumnReader, find_value_outside_type
from .file_columns import ShreddedPath, find_variant_path, type_of
from .page_checks import ReadRange

_CONVERTED, _SCALE, _PRECISION, _DECIMAL = 6, 7, 8, 5  # fields of a schema's element, and a ConvertedType
_OTHERS = np.array([OTHER], np.uint64)


def find_path_leaves(file: BloomFile, expression: KeyExpression) -> list[SchemaLeaf]:
    """Return the leaves of a file that the values at a path of a Variant are from.

    Raises
    ------
    UnknownColumnError
        There is no such column, or other columns differ from it by their case only.
    UnsupportedTypeError
        It is no Variant.
    """
    return _PathLeaves(file, expression).all


class _PathLeaves:
    """The leaves that have the values at a path of a Variant.

    Attributes
    ----------
    variant : path of the Variant's group.
    leaf : the column that the path is shredded to; None if there is none.
    of_row_groups : for each row group, the leaves to read.
    all : those of all row groups.
    """

    def __init__(self, file: BloomFile, expression: KeyExpression):
        [column] = expression.columns
        path = expression.path
        found = _find_variant(file, column, path)
        typed, is_field = found.typed, not any(isinstance(step, int) for step in path.parts)
        if found.leaf is None and is_field and expression.target != "string":
            typed = ()  # objects and arrays, which are cast to texts only
        self.variant = found.metadata.path[:-1]
        self.leaf = found.leaf
        self.of_row_groups = [_choose(file, number, found, typed) for number in file.row_groups]
        chosen = {leaf.index for leaves in self.of_row_groups for leaf in leaves}
        self.all = [leaf for leaf in file.leaves if leaf.index in chosen] or [found.metadata]


def _find_variant(file: BloomFile, column: str, path: VariantPath) -> ShreddedPath:
    found = find_variant_path(file.leaves, column, path)
    start = f"{column}.".lower()
    alike = [leaf for leaf in file.leaves if f"{leaf.name}.".lower().startswith(start)]
    if not alike:
        raise UnknownColumnError("no such column", path=file.path, column=column)
    if found is None:
        raise UnsupportedTypeError("it is no Variant", path=file.path, column=column)
    group = found.metadata.path[:-1]
    if any(leaf.path[: len(group)] != group for leaf in alike):
        raise UnknownColumnError("other columns differ from it by their case only", path=file.path, column=column)
    return found


def _choose(file: BloomFile, row_group: int, found: ShreddedPath, typed: Sequence[SchemaLeaf]) -> list[SchemaLeaf]:
    """Return the leaves to read of a row group: without residuals that are null, nor the names in these."""
    if file.footer.empty_row_groups[row_group]:
        return []
    residuals = [leaf for leaf in found.residuals if file.footer.has_values(row_group, leaf) is not False]
    names = [found.metadata] if residuals or (typed and found.leaf is None) else []
    return [*{leaf.index: leaf for leaf in (*names, *residuals, *typed)}.values()]


class VariantHashes:
    """The distinct hashes of what Variants have at a path, cast to a type, row group by row group. Thread-safe.

    They are those of the values as a column of the type would store them. What cannot be cast is left out, as it equals
    nothing. A row group or zone with a value whose cast depends on a session has `calls.OTHER`.

    Parameters
    ----------
    file, expression : the path.

    Attributes
    ----------
    leaves : the columns of the file that are read.
    column_type : the type that values are cast to.

    Raises
    ------
    UnsupportedTypeError
        The type is BOOLEAN, or the column is no Variant.
    ParquetBloomError
        As of `ColumnHashes`.
    """

    def __init__(self, file: BloomFile, expression: KeyExpression):
        self._file = file
        [self._column] = expression.columns
        self._path, self._target = expression.path, to_arrow_type(expression.target)
        self.column_type = from_arrow(self._target)
        try:
            if not self.column_type.hashable:
                problem = "BOOLEAN values are not indexed: there are two values to find"
                raise UnsupportedTypeError(problem, column=expression)
            found = _PathLeaves(file, expression)
            self.leaves = found.all
            self._depth = len(found.variant) - 1
            self._of_row_groups = found.of_row_groups
            self._readers = {leaf.index: _open_leaf(file, leaf) for leaf in self.leaves}
            for row_group in file.row_groups:
                for leaf in self.leaves:
                    count_values(file, row_group, leaf)
            types = [self._readers[leaf.index].arrow_field.type for leaf in self.leaves]
            self._extract([pa.nulls(0, arrow_type) for arrow_type in types], self.leaves, 0)  # which checks them
            is_same = found.leaf is not None and type_of(found.leaf) == self.column_type
            self._shredded = (found.leaf, ColumnHashes(file, found.leaf)) if found.leaf and is_same else None
        except ParquetBloomError as error:
            error.path = error.path or file.path
            raise

    def of(self, row_group: int, *chunks: ReadRange | None) -> NDArray[np.uint64]:
        """Return the hashes of a row group, unordered.

        Parameters
        ----------
        chunks : of each of `leaves`, what reads it in place of the file, see `ColumnReader`; none for the file.

        Raises
        ------
        UnreadableColumnError
            Pages cannot be decoded, or contradict each other.
        MalformedVariantError
            A row does not conform to the format.
        """
        given = self._by_leaf(chunks)
        if self._shredded is not None and self._of_row_groups[row_group] == [self._shredded[0]]:
            leaf, hashes = self._shredded
            return hashes.of(row_group, given.get(leaf.index))
        distinct = HashSet()
        try:
            for first_row, arrays, leaves in self._read(row_group, given):
                self._add(distinct, arrays, leaves, first_row)
        except ParquetBloomError as error:
            self._name(error, row_group)
            raise
        return distinct.to_array()

    def of_zones(self, row_group: int, zone_rows: int, *chunks: ReadRange | None) -> list[NDArray[np.uint64]]:
        """Return the hashes of each zone of `zone_rows` rows of a row group; otherwise as `of`."""
        given = self._by_leaf(chunks)
        if self._shredded is not None and self._of_row_groups[row_group] == [self._shredded[0]]:
            leaf, hashes = self._shredded
            return hashes.of_zones(row_group, zone_rows, given.get(leaf.index))
        zones = ZoneHashes(self._file.footer.num_rows_of(row_group), zone_rows)
        try:
            for row, arrays, leaves in self._read(row_group, given):
                start = 0
                while start < len(arrays[0]):
                    zone = (row + start) // zone_rows
                    count = min(len(arrays[0]) - start, (zone + 1) * zone_rows - row - start)
                    some = [array.slice(start, count) for array in arrays]
                    self._add(zones.open(zone), some, leaves, row + start)
                    start += count
        except ParquetBloomError as error:
            self._name(error, row_group)
            raise
        return zones.finish()

    def _by_leaf(self, chunks: Sequence[ReadRange | None]) -> Mapping[int, ReadRange | None]:
        return dict(zip((leaf.index for leaf in self.leaves), chunks, strict=True)) if chunks else {}

    def _name(self, error: ParquetBloomError, row_group: int) -> None:
        error.path = error.path or self._file.path
        error.row_group = row_group if error.row_group is None else error.row_group

    def _read(
        self, row_group: int, given: Mapping[int, ReadRange | None]
    ) -> Iterator[tuple[int, list[pa.Array], Sequence[SchemaLeaf]]]:
        """Yield the first row, and arrays of the same rows of the leaves to read, each in the groups that it is in."""
        leaves, row = self._of_row_groups[row_group], 0
        readers = [self._readers[leaf.index] for leaf in leaves]
        for arrays in align_rows(
            [reader.read_rows(row_group, given.get(reader.leaf.index), BATCH_ROWS) for reader in readers]
        ):
            yield row, arrays, leaves
            row += len(arrays[0])

    def _add(self, distinct: HashSet, arrays: Sequence[pa.Array], leaves: Sequence[SchemaLeaf], first_row: int) -> None:
        try:
            values = self._extract(arrays, leaves, first_row)
        except VariantCastError:  # of a row that may have any value, so that no others matter
            distinct.add(_OTHERS)
            return
        add_hashes(distinct, to_storage(values, self.column_type), self.column_type)

    def _extract(self, arrays: Sequence[pa.Array], leaves: Sequence[SchemaLeaf], first_row: int) -> pa.Array:
        variants = _join(leaves, arrays, 0)
        for _ in range(self._depth):
            (variants,) = variants.flatten()
        return extract(variants, self._path, self._target, try_cast=True, name=self._column, first_row=first_row)


# ---------------------------------------------------------------------------------------------- leaves as one column


def _open_leaf(file: BloomFile, leaf: SchemaLeaf) -> ColumnReader:
    """Open a leaf of a Variant, to be read as stored but for decimals."""
    if leaf.shown_as_null or read_repetition(leaf.nodes[-1]) == REPEATED or not leaf.known_repetition:
        raise UnsupportedTypeError("it is no part of a Variant", column=leaf.name)
    column_type, annotation = type_of(leaf), list[tuple[int, int, object]]()
    if column_type.kind is Kind.DECIMAL:
        precision = column_type.precision or 0
        annotation = [(_CONVERTED, I32, _DECIMAL), (_SCALE, I32, column_type.scale), (_PRECISION, I32, precision)]
    return ColumnReader(file.source, file.footer, leaf, annotation=annotation)


def _join(leaves: Sequence[SchemaLeaf], arrays: Sequence[pa.Array], depth: int) -> pa.Array:
    """Return what is below a group as one array, with the schema's names, given each leaf within its groups.

    Parameters
    ----------
    leaves : that are below the group.
    depth : number of groups around it.

    Raises
    ------
    UnreadableColumnError
        The leaves contradict each other about the group, or values are outside their type.
    """
    first = leaves[0]
    if depth == len(first.path) - 1:
        return _show(arrays[0], first)
    repetition, lengths, mask = read_repetition(first.nodes[depth]), None, None
    if repetition == REPEATED:
        lengths = [np.nan_to_num(to_numpy(array.value_lengths())).astype(np.int32) for array in arrays]
        _require_alike(lengths, first)
        arrays = [array.flatten() for array in arrays]
    elif repetition != REQUIRED:  # what is required is null as the group around it is
        valid = [to_numpy(array.is_valid()) for array in arrays]
        _require_alike(valid, first)
        mask = None if valid[0].all() else from_numpy(~valid[0])
    below: dict[str, list[int]] = {}
    for i, leaf in enumerate(leaves):
        below.setdefault(leaf.path[depth + 1], []).append(i)
    children = {
        name: _join([leaves[i] for i in some], [arrays[i].field(0) for i in some], depth + 1)
        for name, some in below.items()
    }
    inner = first.nodes[depth + 1]
    if lengths is None and len(children) == 1 and read_repetition(inner) == REPEATED:
        (child,) = children.values()
        return pa.ListArray.from_arrays(child.offsets, child.values, mask=mask)
    group = pa.StructArray.from_arrays([*children.values()], [*children], mask=mask)
    if lengths is None:
        return group
    is_three_level = len(children) == 1 and depth + 1 < len(first.path) - 1
    offsets = np.append(np.int32(0), np.cumsum(lengths[0], dtype=np.int32))
    return pa.ListArray.from_arrays(from_numpy(offsets), group.field(0) if is_three_level else group)


def _require_alike(parts: Sequence[NDArray[np.generic]], leaf: SchemaLeaf) -> None:
    if not all(np.array_equal(parts[0], part) for part in parts[1:]):
        raise UnreadableColumnError("the columns of the Variant contradict each other", column=leaf.name)


def _show(array: pa.Array, leaf: SchemaLeaf) -> pa.Array:
    """Return stored values of a leaf as Arrow has values of its type; integers of 8 and 16 bits are of 32."""
    column_type = type_of(leaf)
    problem = None if column_type.kind is Kind.DECIMAL else find_value_outside_type(array, column_type)
    if problem:
        raise UnreadableColumnError(f"cannot be read: {problem}", column=leaf.name)
    arrow_type = _find_arrow_type(column_type)
    return array if arrow_type is None else array.view(arrow_type)


def _find_arrow_type(column_type: ColumnType) -> pa.DataType | None:
    """Return the Arrow type that stored values are those of; None for one that they have already."""
    kind, is_wide = column_type.kind, column_type.physical == "INT64"
    if kind is Kind.STRING:
        return pa.string()
    if kind is Kind.DATE:
        return pa.date32()
    if kind is Kind.TIMESTAMP and is_wide:
        return pa.timestamp(column_type.unit, "UTC" if column_type.utc else None)
    if kind is Kind.TIME:
        return pa.time64(column_type.unit) if is_wide else pa.time32(column_type.unit)
    if kind is Kind.INTEGER and not column_type.signed:
        return pa.uint64() if is_wide else pa.uint32()
    return None

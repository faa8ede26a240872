"""Options of filters to write: the columns, and the target quality of their filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from ...core.bloom import sizing
from ...errors import ParquetBloomError, UnknownColumnError, UnsupportedTypeError
from ...hashing.column_type import ColumnType
from ...metadata.footer import Leaf
from ..columns import find_leaf, type_of


@dataclass(frozen=True)
class FilterOptions:
    """Options for the size of a column's filters.

    Attributes
    ----------
    fpp : target false-positive probability.
    ndv : distinct values to size for; None counts them in each row group.
    power_of_two : whether sizes are powers of two, which every reader accepts.
    """

    fpp: float = 0.01
    ndv: int | None = None
    power_of_two: bool = True

    def __post_init__(self) -> None:
        # Real and Integral include NumPy's numbers.
        if isinstance(self.fpp, bool) or not isinstance(self.fpp, Real) or not 0 < self.fpp < 1:
            raise ParquetBloomError(f"fpp must be a number between 0 and 1, not {self.fpp!r}")
        if self.ndv is not None and (isinstance(self.ndv, bool) or not isinstance(self.ndv, Integral) or self.ndv < 0):
            raise ParquetBloomError(f"ndv must be a whole number of distinct values, not {self.ndv!r}")
        if not isinstance(self.power_of_two, bool):
            raise ParquetBloomError(f"power_of_two must be True or False, not {self.power_of_two!r}")

    def num_bytes(self, distinct: int) -> int:
        """Return the size in bytes of a filter for a column chunk with `distinct` distinct values."""
        return sizing.size_for(distinct if self.ndv is None else self.ndv, self.fpp, self.power_of_two)


Columns = str | Iterable[str] | Mapping[str, float | Mapping[str, Any] | FilterOptions | None]


@dataclass(frozen=True)
class ColumnPlan:
    """One column that gets filters."""

    leaf: Leaf
    column_type: ColumnType
    options: FilterOptions


def parse_columns(columns: Columns, default: FilterOptions) -> dict[str, FilterOptions]:
    """Parse `["a", "b.c"]`, `{"a": 0.001}` or `{"a": {"fpp": 0.01, "ndv": 1000}}` into {name: options}.

    Raises
    ------
    ParquetBloomError
        A setting is unknown or out of range, or no column is given.
    """
    if isinstance(columns, str):
        columns = [columns]
    try:
        settings = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns)
    except TypeError:  # not a collection, or one of unhashable objects
        raise ParquetBloomError(f"columns must be a list or mapping of dotted paths, not {columns!r}") from None
    if not settings:
        raise ParquetBloomError("no columns given that should get a filter")
    parsed = {}
    for name, setting in settings.items():
        if not isinstance(name, str):
            raise ParquetBloomError(f"a column must be given as a dotted path, not {name!r}")
        try:
            parsed[name] = _parse_options(setting, default)
        except ParquetBloomError as error:
            raise ParquetBloomError(error.problem, column=name) from None
    return parsed


def _parse_options(setting: Any, default: FilterOptions) -> FilterOptions:
    if setting is None:
        return default
    if isinstance(setting, FilterOptions):
        return setting
    if not isinstance(setting, Mapping):
        return FilterOptions(setting, default.ndv, default.power_of_two)
    unknown = set(setting) - {"fpp", "ndv", "power_of_two"}
    if unknown:
        raise ParquetBloomError(f"unknown setting {sorted(map(str, unknown))[0]!r}; there are: fpp, ndv, power_of_two")
    settings = {"fpp": default.fpp, "ndv": default.ndv, "power_of_two": default.power_of_two, **setting}
    return FilterOptions(**settings)


def plan_columns(leaves: Sequence[Leaf], requested: Mapping[str, FilterOptions], path: str) -> list[ColumnPlan]:
    """Resolve the columns, check that they can have filters, and return them in schema order.

    Raises
    ------
    UnknownColumnError, UnsupportedTypeError
    """
    plans: dict[int, ColumnPlan] = {}
    exact: dict[str, list[Leaf]] = {}  # a search per name would be slow for thousands of names
    for leaf in leaves:
        exact.setdefault(leaf.name, []).append(leaf)
    for name, options in requested.items():
        matches = exact.get(name, [])
        leaf = matches[0] if len(matches) == 1 else find_leaf(leaves, name, path)
        column_type = type_of(leaf)
        if not column_type.hashable:
            problem = "BOOLEAN columns get no filter: there are two values to find"
            raise UnsupportedTypeError(problem, path=path, column=leaf.name)
        if leaf.index in plans:
            raise UnknownColumnError("the column is named twice", path=path, column=leaf.name)
        plans[leaf.index] = ColumnPlan(leaf, column_type, options)
    return [plans[index] for index in sorted(plans)]

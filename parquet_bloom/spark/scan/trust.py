"""Decides which columns of a file have evidence about what Spark reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ...file.reader import BloomFile
from ..session.fields import Field
from .parquet_columns import Rules, find_column_problem


@dataclass(frozen=True)
class SparkCompatibility:
    """`file.statistics.ColumnCompatibility` of a Spark session.

    Attributes
    ----------
    fields : (name in the predicate, column), sorted by name.
    rules : how the session reads files.
    """

    fields: tuple[tuple[str, Field], ...]
    rules: Rules

    @classmethod
    def of(cls, fields: Mapping[str, Field], rules: Rules) -> SparkCompatibility:
        """Return the compatibility for {name in the predicate: column}."""
        return cls(tuple(sorted(fields.items(), key=lambda item: item[0])), rules)

    @property
    def by_schema(self) -> bool:
        return False

    def doubts(self, file: BloomFile) -> dict[str, str]:
        doubts = ((name, find_column_problem(file, field, self.rules)) for name, field in self.fields)
        return {name: doubt for name, doubt in doubts if doubt is not None}

    @cached_property
    def _hash(self) -> int:
        return hash((tuple(name for name, _ in self.fields), self.rules))

    def __hash__(self) -> int:
        return self._hash

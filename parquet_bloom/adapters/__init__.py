"""Lakes as sources of other libraries: Ray Data, Daft and dbt. Each is imported, with its library, at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..util.lazy import make_lazy

if TYPE_CHECKING:
    from .daft_lake import DaftLake
    from .ray_lake import RayLake, RayPositions

__all__ = ["DaftLake", "RayLake", "RayPositions"]

_HOMES = {
    "DaftLake": ".daft_lake",
    "RayLake": ".ray_lake",
    "RayPositions": ".ray_lake",
}

if not TYPE_CHECKING:  # to type checkers a module with __getattr__ has every name
    __getattr__, __dir__ = make_lazy(globals(), _HOMES)

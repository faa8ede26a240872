"""Lakes as sources of Ray Data, Daft and dbt, and tables of Paimon: each is imported, with its library, when used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..util.lazy import make_lazy

if TYPE_CHECKING:
    from .daft_lake import DaftLake
    from .paimon_lake import PaimonLake
    from .ray_lake import RayLake, RayPositions

__all__ = ["DaftLake", "PaimonLake", "RayLake", "RayPositions"]

_HOMES = {
    "DaftLake": ".daft_lake",
    "PaimonLake": ".paimon_lake",
    "RayLake": ".ray_lake",
    "RayPositions": ".ray_lake",
}

if not TYPE_CHECKING:  # to type checkers a module with __getattr__ has every name
    __getattr__, __dir__ = make_lazy(globals(), _HOMES)

"""ORC files: Bloom filters and statistics of all writers."""

from .orc_filters import OrcFilter, keying_of
from .orc_filters import hash_values as keying
from .orc_reader import OrcFile, open
from .orc_schema import OrcLeaf
from .orc_tail import OrcRowGroup, Stripe, is_orc
from .orc_verify import verify

__all__ = [
    "OrcFile",
    "OrcFilter",
    "OrcLeaf",
    "OrcRowGroup",
    "Stripe",
    "is_orc",
    "keying",
    "keying_of",
    "open",
    "verify",
]

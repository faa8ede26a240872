"""ORC files: their Bloom filters and statistics, by whichever writer."""

from .filters import OrcFilter
from .keys import keying, keying_of
from .reader import OrcFile, open
from .schema import OrcLeaf
from .stripes import OrcRowGroup, Stripe
from .tail import is_orc
from .verify import verify

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

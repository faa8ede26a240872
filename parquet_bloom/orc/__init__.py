"""ORC files: Bloom filters and statistics of all writers.

`metadata` comes first, then `filters`, `indexes` and `reader`, then `values`, and `verify` and `survey` build on all of
these.
"""

from .filters.filter import OrcFilter
from .filters.hashes import hash_values as keying
from .filters.hashes import keying_of
from .metadata.schema import OrcLeaf
from .metadata.stripes import OrcRowGroup, Stripe
from .metadata.tail import is_orc
from .reader import OrcFile, open
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

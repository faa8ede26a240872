"""XXH64, seed 0, of arrays of keys: the hash of Parquet's Bloom filters.

Source: the xxHash specification (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md), XXH64.
"""

from ..dispatch import kernels
from ..keys import Keys

__all__ = ["Keys", "hash_keys", "hash_one"]

hash_keys = kernels.hash_keys
hash_one = kernels.hash_one

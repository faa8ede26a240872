"""Hash functions: XXH64, Murmur3 and SipHash. `xxh64` is below the others."""

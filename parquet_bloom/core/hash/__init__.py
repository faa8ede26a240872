"""Hash functions: XXH64, Murmur3, its variant in ORC, and SipHash."""

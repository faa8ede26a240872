"""Hash functions: XXH64, Murmur3 and SipHash. The others build on `xxh64`."""

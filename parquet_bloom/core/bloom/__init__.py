"""Split-block Bloom filters: sizes, variants, inserting, testing, and counting distinct hashes."""

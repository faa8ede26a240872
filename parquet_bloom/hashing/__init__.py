"""Plain encoding of values, Arrow arrays and literals: the bytes that Parquet's Bloom filters hash."""

"""Plain encoding of values, Arrow arrays and literals: the bytes that Parquet's Bloom filters hash.

`column_type` comes first, then `column_type_json` and `arrow`, then `coerce`, and `bounds` last.
"""

"""One Parquet file: reading, verifying and writing its Bloom filters.

`columns` and `cache` come first, then `chunk_filter`, which reads one filter, then `reader`, which opens a file;
`probe`, `identity`, `statistics`, `pages` and `values` build on these, and `write`, `verify`, `detect` and `advise` on
all.
"""

"""One Parquet file: reading, verifying and writing its Bloom filters.

`reader` opens a file, `chunk_filter` reads one filter; `probe`, `verify`, `statistics` and the sub-packages use them.
"""

"""Zone indexes in files: Arrow, Lance and Parquet.

`arrow` comes first, and `lance` and `parquet` build on it.
"""

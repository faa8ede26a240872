"""The layout "postings": sorted hashes with the units that hold each.

`directory`, `bitmaps` and `batch` are below `writer`, `reader` and `merge`.
"""

"""The layout "postings": sorted hashes with the units that hold each.

`directory`, `bitmaps` and `batch` come first, `writer` builds on `bitmaps`, `reader` on all of these, and `merge` on
`reader` and `writer`.
"""

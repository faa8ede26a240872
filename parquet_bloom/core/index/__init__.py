"""Kernels of the lake index: postings, and aligned cuckoo filters.

`cuckoo_rows` builds on `cuckoo`, and `postings` is independent of both.
"""

"""Split-block Bloom filters: sizes, variants, inserting, testing, and counting distinct hashes.

`sbbf` builds on `scalar` and `memory`, `distinct` on `buckets`, and `blocks`, `sizing` and `variants` are independent.
"""

"""Split-block Bloom filters: sizes, variants, inserting, testing, and counting distinct hashes.

`blocks` and `sbbf` build on `core.block` and `scalar`; `distinct` builds on `buckets` and `memory`.
"""

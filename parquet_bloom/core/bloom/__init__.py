"""Split-block Bloom filters: sizes, variants, inserting, testing, and counting distinct hashes.

`block` and `scalar` are below `blocks` and `sbbf`; `buckets` and `memory` are below `distinct`.
"""

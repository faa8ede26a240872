"""ORC's Bloom filters: encodings, hashes, and writers whose filters cannot be trusted.

`encodings` is below `hashes`, which is below `filter`; `writer_bugs` is independent.
"""

"""The stored parts of a segment, by layout.

`part` is the interface; `postings` and `cuckoo` implement it; `layouts` chooses.
"""

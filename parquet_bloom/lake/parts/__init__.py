"""The stored parts of a segment, by layout.

`part` is the interface, `postings` and `cuckoo` implement it with `sorted_runs`, and `layouts` chooses between them.
"""

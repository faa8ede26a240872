"""The layout "cuckoo": aligned cuckoo filters, their sizes, and the index files of another program.

`writer` comes first, `reader` builds on it, and `merge` on both; `sizing` and `partition_index_files` are independent.
"""

"""The layout "cuckoo": aligned cuckoo filters.

`writer` writes a part, `reader` builds on it, and `merge` on both. `sizing` advises on a part's settings, and
`partition_index_files` reads the index files of another program.
"""

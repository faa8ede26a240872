"""The layout "cuckoo": aligned cuckoo filters.

`format` is below `writer`, `reader` and `merge`.
"""

"""Caches of the footers of opened files and, for objects in a store, of their filters.

`entry` is one file's entry, `memory` the cache of a process, and `disk`, which builds on both, the cache that processes
share.
"""

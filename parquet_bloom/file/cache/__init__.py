"""Caches of the footers of opened files and, for objects in a store, of their filters.

`entry` is what is cached of one file, `memory` the cache of a process, and `disk` the cache that processes share.
"""

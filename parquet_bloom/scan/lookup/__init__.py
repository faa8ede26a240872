"""Rows by their keys: which files may have them by a lake index, and what is kept between lookups.

`keys` parses keys, `watch` notices that files have changed, `known_file` reads the rows of one key, `session` keeps an
index open and plans lookups by it, and `get` puts the rows into the order of their keys. `key_chunks` takes any number
of keys in parts that fit in memory, and `locate` finds the physical positions of their rows.
"""

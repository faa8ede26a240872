"""Rows by their keys: which files may have them by a lake index, and what is kept between lookups.

`watch` notices that files have changed, `session` keeps an index open and plans lookups by it, `keys` puts rows into the
order of their keys, and `get` reads them.

`key_chunks` takes any number of keys in parts that fit in memory, `locate` finds the physical positions of their rows, and
`positions_output` writes these into files.
"""

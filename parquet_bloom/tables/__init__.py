"""Delta and Iceberg tables: the files that a version of a table consists of.

`iceberg_metadata` reads metadata files, `locations` builds on it and checks where files may be, `columns` maps columns,
and `files` is the public entry on top.
"""

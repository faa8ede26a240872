"""Embed filters into the files of a table: new files beside the old ones, exchanged by one commit.

`report` has the results, `target` is the interface of a table in which files can be exchanged, `columns` finds a
table's columns in its files, `new_files` writes the new ones. `delta` and `iceberg` implement `target`: `refusal` has
what they have in common, and `replace` writes Iceberg's snapshots. `open` chooses one of them, `exchange` does the
work, and `api` has the public function.
"""

"""Embed filters into the files of a table: new files beside the old ones, exchanged by one commit.

`report` has the results, `target` is the interface of a table in which files can be exchanged, `columns` finds a table's
columns in its files, `new_files` writes the new ones, `delta` and `iceberg` implement `target`, the latter by `replace`,
which writes Iceberg's snapshots; `api` has the public function.
"""

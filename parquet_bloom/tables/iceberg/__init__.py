"""Iceberg tables: their files, statistics and deleted rows at one snapshot, by their metadata.

`metadata_files/` chooses and opens metadata files, and `catalogs` asks catalogs; `versions` chooses the snapshot.
`manifests/` reads what a snapshot consists of, `matching` finds the delete files of each data file, and `deletes/`
reads those; `cache` is where both keep what they read. `columns`, `partitions`, `bounds` and `statistics` are what is
known of columns, `locations` checks where files may be. `snapshot` puts it together, and `open` is the public entry;
`files` is the lake index's view of it.
"""

"""Iceberg tables: their files, statistics and deleted rows at one snapshot, by their metadata.

`metadata` opens metadata files and `catalogs` asks catalogs; `versions` chooses the snapshot. `avro` reads a file, and
`manifests` by it what a snapshot consists of, `matching` finds the delete files of each data file, and `deletes/` reads
those. `columns`, `partitions`, `bounds` and `statistics` are what is known of columns, `locations` checks where files
may be. `snapshot` puts it together, and `open` is the public entry; `files` is the lake index's view of it.
"""

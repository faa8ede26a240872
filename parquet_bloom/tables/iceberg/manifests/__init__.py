"""The manifests of an Iceberg snapshot: which files it has, and what is known of their columns.

`schema` makes of an Avro schema what the compiled decoder takes, and `avro` reads a file by it, as columns. `field_map`
is a map by field id of many files, `files` the files of one manifest, `entries` those of all manifests of a snapshot.
"""

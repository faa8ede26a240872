"""The metadata files of an Iceberg table that is given by its path, without a catalog.

`table` reads one of them, `choice` says by names and content which of several is the latest, and `folder` finds that in
a table's folder, where writers that died may have left others.
"""

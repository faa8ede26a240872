"""The deleted rows of an Iceberg table's data files: deletion vectors, files of positions, and equality deletes.

`roaring` checks bitmaps before a library reads them, `vectors`, `positions` and `equality` each read one kind of file,
`cache` keeps what they read, and `rows` is what a scan asks.
"""

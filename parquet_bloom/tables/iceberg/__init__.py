"""Iceberg tables: their files, statistics and deleted rows at one snapshot, by their metadata."""

"""Decoders and encoders of Parquet and ORC metadata and of pages, on bytes in memory, without access to files."""

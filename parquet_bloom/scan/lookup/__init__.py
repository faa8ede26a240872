"""Rows by their keys and by what matches: where they are, which files may have them, and what lookups keep."""

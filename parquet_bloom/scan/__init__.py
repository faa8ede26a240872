"""Scan files for a predicate: plan which files and row groups can contain a match, and read the rows that match."""

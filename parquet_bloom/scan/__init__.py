"""Scans of files for a predicate: plan which files and row groups can match, and read the rows that match."""

"""Locate the rows of row groups that match: `row_batch`, and what it knows of files and of deleted rows."""

"""Locate the rows of row groups that match: `locate_rows`, and what it knows of files and of deleted rows."""

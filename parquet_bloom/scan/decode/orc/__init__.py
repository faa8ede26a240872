"""Reader of the rows of ORC files: `data`, over `columns` (names and types) and `seek` (single row groups)."""

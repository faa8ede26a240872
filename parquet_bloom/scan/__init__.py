"""Many files and a predicate: which files and row groups can hold a match, and the rows that do."""

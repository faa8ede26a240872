"""Acting on rows that are found: deleting and replacing them in tables, erasing them from files."""

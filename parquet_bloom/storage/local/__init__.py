"""Local files: reading, reading many files in one call, and atomic rewriting."""

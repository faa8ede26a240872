"""Local files: reading, many at once, and rewriting so that a file is the old one or the new one, whole."""

"""Delta tables: what a version consists of, by deltalake and by the log."""

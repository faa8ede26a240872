"""Delta tables: `log` reads their logs."""

"""Output of commands: tables, JSON, and rows in several formats."""

"""Running a command over many files: side by side, with progress, and with rewrites that end whole."""

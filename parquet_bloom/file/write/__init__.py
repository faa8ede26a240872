"""Writing, replacing and dropping filters."""

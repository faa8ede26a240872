"""Options that many commands share, and their completion by the shell."""

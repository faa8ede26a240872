"""What every layer uses and no layer owns: logs, progress bars and threads."""

"""The archive of Python packages that executors need."""

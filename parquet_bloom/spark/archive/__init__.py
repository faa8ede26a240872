"""The archive of Python packages that executors need: `dependencies` finds the packages, `build` writes them."""

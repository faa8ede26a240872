"""The archive of Python packages that executors need.

`dependencies` finds the packages, and `build` writes them.
"""

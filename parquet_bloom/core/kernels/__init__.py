"""Loops that hash, insert and test many keys, compiled once per instruction set.

Each module includes `head.pxi`, its primitives and `kernels.pxi`; `core.dispatch` selects one of them.
"""

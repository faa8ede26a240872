"""Loops that hash, insert and test many keys, compiled once per instruction set; `core.dispatch` selects one set."""

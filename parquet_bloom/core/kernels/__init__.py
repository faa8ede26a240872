"""Hashing, inserting and testing many keys, one module for each instruction set; `core.dispatch` chooses one."""

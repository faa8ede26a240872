"""Hash, insert and test many keys, with one module per instruction set; `core.dispatch` selects one."""

"""The commands of `parquet-bloom`, one module each, and the groups `index` and `zones`.

A command parses its options with `cli.options`, calls the public API, and prints with `cli.output`; no command imports
another.
"""

"""One module a command of `parquet-bloom`.

A command parses its options with `cli.options`, calls the public API, and prints with `cli.output`; no command
imports another.
"""

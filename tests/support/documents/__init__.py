"""Runs the examples in the Markdown pages."""

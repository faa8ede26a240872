"""Utilities shared by all layers: logging, progress bars, threads, wording."""

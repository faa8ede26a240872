"""Rows by their keys: which files may have them by a lake index, and what is kept between lookups."""

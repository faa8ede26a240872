"""Rows found in, and taken out of, the pages of column chunks."""

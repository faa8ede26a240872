"""Filters of the format's drafts: `trial` determines their variant, and `pages` locates them among the pages."""

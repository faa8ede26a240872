"""Filters of the format's drafts, whose footers lack what the final format has.

`trial` determines their variant and `pages` locates them among the pages; neither builds on the other.
"""

"""Filters of the format's drafts: which variant a file holds (`trial`), and where its filters lie (`pages`)."""

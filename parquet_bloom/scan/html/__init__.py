"""A plan as HTML: one self-contained page, and a smaller view for notebooks."""

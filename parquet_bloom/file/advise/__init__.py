"""Advice on which columns deserve filters.

`survey` reads files, `estimates` and `merge` count values, `verdict` and `engines` judge, and `report` presents it.
"""

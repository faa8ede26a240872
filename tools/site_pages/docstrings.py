"""A griffe extension: docstrings whose sections say what a parameter is, not which type it has."""

from __future__ import annotations

from typing import Any

import griffe

from site_pages.parameters import move_descriptions


class DescribedParameters(griffe.Extension):
    """Move each parameter's text to where the parser looks for it."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of an object that griffe has loaded."""
        if obj.docstring is not None:
            obj.docstring.value = move_descriptions(obj.docstring.value)

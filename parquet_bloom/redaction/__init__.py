"""Removal of secrets from all text that leaves the package: errors, logs, reports, and output of commands.

Such text may come from libraries, which print the URLs, options and responses they had. `forms` finds secrets by their
form, `values` builds on it and remembers them by value, `texts` hides both in text, and `exceptions` in chains of
exceptions.
"""

from .exceptions import LibraryError, without_secrets
from .texts import redacted, redacted_in, shown_redacted
from .values import forget, remember, remember_environment, remember_filesystem, remember_url

__all__ = [
    "LibraryError",
    "forget",
    "redacted",
    "redacted_in",
    "remember",
    "remember_environment",
    "remember_filesystem",
    "remember_url",
    "shown_redacted",
    "without_secrets",
]

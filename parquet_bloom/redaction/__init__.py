"""Secrets are taken out of every text that leaves: errors, logs, reports, what the command line prints.

The text may be anybody's: libraries print the URLs, options and answers that they had. `forms` and `values` know what
is secret, `texts` hides it in texts, and `exceptions` in whole chains of exceptions.
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

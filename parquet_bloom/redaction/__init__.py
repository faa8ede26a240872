"""Remove secrets from all text that leaves the package: errors, logs, reports, and the output of the command line.

Such text may come from libraries, which print the URLs, options and responses they had. `forms` and `values` know the
secrets, `texts` hides them in text, and `exceptions` in chains of exceptions.
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

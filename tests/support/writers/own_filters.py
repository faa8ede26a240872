"""pyarrow's own Bloom filters, which it writes since 24."""

import pyarrow as pa
import pytest

HAS_OWN_FILTERS = int(pa.__version__.split(".")[0]) >= 24
needs_own_filters = pytest.mark.skipif(not HAS_OWN_FILTERS, reason="pyarrow writes no filters before 24")

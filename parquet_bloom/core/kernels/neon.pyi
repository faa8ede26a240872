from .base import check_keys as check_keys
from .base import hash_keys as hash_keys
from .base import hash_one as hash_one
from .base import insert_keys as insert_keys
from .base import insert_new as insert_new
from .base import probe_filters as probe_filters

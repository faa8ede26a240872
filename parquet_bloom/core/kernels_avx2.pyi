from .kernels_base import check_keys as check_keys
from .kernels_base import hash_keys as hash_keys
from .kernels_base import hash_one as hash_one
from .kernels_base import insert_keys as insert_keys
from .kernels_base import insert_new as insert_new
from .kernels_base import probe_filters as probe_filters

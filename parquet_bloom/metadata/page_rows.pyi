from typing import Any

from .page_decode import PageVisitor, StoredColumn

class RowTaker(PageVisitor):
    def __new__(cls, column: StoredColumn, decompress: Any, num_rows: int) -> RowTaker: ...
    def finish(self) -> Any: ...

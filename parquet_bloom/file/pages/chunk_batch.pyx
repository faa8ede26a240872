# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The one walk over the pages of column chunks, of many files in few calls: to search them, and to take rows out of them.

What is done with a page is up to a `PageVisitor`. The files are read by a `RangeReader`: local ones by `OpenFiles`, without
the interpreter lock, which is held only to decompress pages with codecs that compiled code does not know; any other by
`FetchedRanges`. Nothing here trusts the bytes: what is not as usual ends in an error, and is then read in another way.
"""

from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

import zlib

import numpy as np

from ...errors import MalformedFooterError, StorageError, UnusualPageError

from ...metadata.page_decode cimport (
    COMPRESSED, DATA_PAGE, DATA_PAGE_V2, DELTA_BYTE_ARRAY, DICTIONARY_PAGE, ENCODING, FIELDS, HEADER_BYTES, KIND, MOST_BYTES,
    MOST_VALUES, NUM_VALUES, PLAIN, PLAIN_BITS, RLE, RLE_BITS, SIZE, SNAPPY, START, UNCOMPRESSED, UNPACKED, Buffer, PageBody,
    PageVisitor, StoredColumn, close_page, cut_page, is_dictionary, needs_dictionary, refuse, reserve, unpack_page
)
from ...metadata.page_match cimport PageSearch, Targets
from ...metadata.page_rows cimport RowTaker
from ...metadata.thrift_compact cimport Cursor, Page, PageRows, add_page, describe_page, read_page, walk_pages
from ...storage.local.open_files cimport RangeReader

cdef enum:
    # Columns of a table of chunks.
    FILE = 0           # number of the file
    OFFSET = 1
    NUM_BYTES = 2
    NUM_ROWS = 3
    CODEC = 4
    VALUES = 5         # numbers of values, nulls and empty lists included
    FLAGS = 6          # a sum of these:
    CHUNK_FIELDS = 7
    BITS = 1           # its values are booleans
    CHAINED = 2        # pages of DELTA_BYTE_ARRAY may go on from the page before
    COMPRESSED_ALL = 4 # its pages are compressed, whatever their headers say

cdef enum:
    MAX_PAGES = 1 << 20            # of a chunk
    SMALL_BYTES = 64 << 10         # a smaller chunk is read whole
    SMALL_WINDOW = 256             # of a larger one are read for each page header, or if that is too little:
    HEADER_WINDOW = 8 << 10
    READ_COST = 4 << 10            # bytes that are copied in the time that a read takes at least
    READ_AHEAD = 256 << 10         # bytes of adjacent pages that are read at once
    MOST_KEPT = 32 << 20           # bytes of decompressed pages that are kept for a second visit
    MOST_IN_CHUNK = 1 << 28        # values of lists: runs of a few bytes could claim any amount of time

MAX_CHUNK_BYTES = MOST_BYTES
"""Larger column chunks are not searched."""

HAS_BITS, IS_CHAINED, IS_COMPRESSED = BITS, CHAINED, COMPRESSED_ALL
"""Flags of a chunk: its values are booleans; pages of DELTA_BYTE_ARRAY may go on from the page before (see
`Doubt.SINGLE_PAGES`); pages are compressed whatever their headers say (see `Footer.denies_compression`)."""


cdef class PageHeaders:
    """The page headers of large column chunks of files, as they were read, for batches that come later.

    Parameters
    ----------
    files : of each file, {offset of a chunk: its page headers}; what a batch reads is added. See `pack_pages`.
    most : bytes that are kept of each file; headers of further chunks are not.

    Attributes
    ----------
    grown : numbers of the files of which headers were added.
    """

    cdef list files
    cdef Py_ssize_t most
    cdef readonly set grown

    def __cinit__(self, list files not None, Py_ssize_t most):
        self.files, self.most, self.grown = files, most, set()

    cdef int keep(self, const int64_t* chunk, const PageRows* pages) except -1:
        """Keep the headers of a chunk."""
        cdef dict kept = self.files[chunk[FILE]]
        table = np.asarray(<int64_t[:pages.count, :FIELDS]>pages.rows)
        packed = table.astype(np.int32)
        # Numbers of a chunk of more than 2 GiB do not fit. Another thread may add some, too.
        if (packed == table).all() and sum(map(len, list(kept.values()))) + packed.nbytes <= self.most:
            kept[chunk[OFFSET]] = packed.tobytes()
            self.grown.add(chunk[FILE])
        return 0

    cdef bint recall(self, const int64_t* chunk, PageRows* pages) except -1:
        """Return whether there are the headers of a chunk, which are then in `pages`."""
        cdef dict kept = self.files[chunk[FILE]]
        cdef Py_ssize_t page, field
        cdef int64_t* row = NULL
        cdef const int32_t* values
        packed = kept.get(chunk[OFFSET])
        if packed is None:
            return False
        values = <const int32_t*>PyBytes_AS_STRING(packed)
        pages.count = 0
        for page in range(len(packed) // (FIELDS * sizeof(int32_t))):
            row = add_page(pages, MAX_PAGES)
            for field in range(FIELDS):
                row[field] = values[page * FIELDS + field]
        # A footer may be wrong about a chunk, and say that another one begins there.
        return pages.count > 0 and row[START] + row[HEADER_BYTES] + row[SIZE] == chunk[NUM_BYTES]


def pack_pages(int64_t dictionary_bytes, const int64_t[::1] sizes not None, const int64_t[::1] counts not None):
    """Return the pages of a chunk as `PageHeaders` has them, where a page index tells of them but their headers are unread.

    Parameters
    ----------
    dictionary_bytes : of the dictionary page; 0 if there is none.
    sizes, counts : bytes, headers included, and values of each data page.
    """
    has_dictionary = int(dictionary_bytes > 0)
    table = np.zeros((has_dictionary + len(sizes), FIELDS), np.int32)
    table[has_dictionary:, SIZE], table[has_dictionary:, NUM_VALUES] = sizes, counts
    if has_dictionary:
        table[0, SIZE], table[0, KIND] = dictionary_bytes, DICTIONARY_PAGE
    table[1:, START] = np.cumsum(table[:-1, SIZE])
    return table.tobytes()


cdef class Entries:
    """Entries of dictionaries, in buffers of Arrow's layout.

    Parameters
    ----------
    width : bytes of each value; 0 for byte arrays.
    most : bytes of all values.
    """

    cdef Py_ssize_t width
    cdef int64_t most, count, size
    cdef Buffer values, ends

    def __cinit__(self, Py_ssize_t width, int64_t most):
        self.width, self.most = width, min(most, INT32_MAX)

    def __dealloc__(self):
        free(self.values.data)
        free(self.ends.data)

    cdef bint add(self, const uint8_t* data, Py_ssize_t size, int64_t count) except -1 nogil:
        """Add plain-encoded values, which fill a buffer; return whether there is room for them."""
        cdef int64_t total = size if self.width else size - 4 * count, done = self.size, i
        cdef uint32_t length = 0
        cdef Py_ssize_t pos = 0
        cdef int32_t* ends
        if total < 0 or self.width and size != count * self.width:
            refuse("it has another number of values than its header says")
        if total > self.most - self.size:
            return False
        reserve(&self.values, self.size + total)
        if self.width:
            memcpy(self.values.data + self.size, data, size)
        else:
            reserve(&self.ends, (self.count + count + 1) * sizeof(int32_t))
            ends = <int32_t*>self.ends.data + self.count + 1
            for i in range(count):
                if size - pos < 4:
                    refuse("it has fewer values than its header says")
                memcpy(&length, data + pos, 4)  # little-endian, as the processor is
                pos += 4
                if length > <uint64_t>(size - pos) or length > <uint64_t>(self.size + total - done):
                    refuse("a value is cut off")
                memcpy(self.values.data + done, data + pos, length)
                pos += length
                done += length
                ends[i] = <int32_t>done
            if pos != size:
                refuse("bytes of no value follow its values")
        self.count += count
        self.size += total
        return True

    cdef finish(self):
        """Return the end of each value, a zero in front, or None; and the values."""
        values = np.frombuffer(PyBytes_FromStringAndSize(<const char*>self.values.data, self.size), np.uint8)
        if self.width:
            return None, values
        reserve(&self.ends, sizeof(int32_t))
        (<int32_t*>self.ends.data)[0] = 0
        ends = PyBytes_FromStringAndSize(<const char*>self.ends.data, (self.count + 1) * sizeof(int32_t))
        return np.frombuffer(ends, np.int32), values


cdef int require_checksum(const uint8_t* content, int64_t size, int64_t checksum) except -1 nogil:
    """Raise UnusualPageError unless what follows a page header has this CRC-32."""
    with gil:
        if zlib.crc32(PyMemoryView_FromMemory(<char*>content, size, PyBUF_READ)) != checksum:
            refuse("its checksum is of other bytes")
    return 0


cdef class ChunkBatch:
    """Reads column chunks of files that are open.

    Parameters
    ----------
    files : the files, of which chunks are given by their numbers.
    decompress : called with (compressed bytes, number of the codec, size) for codecs other than Snappy.
    headers : of pages of the same files, given by the same numbers; None to keep none. Of a file that is not local a chunk
        without them is read whole.

    Attributes
    ----------
    requests, num_bytes : what was read so far, unless the reader counts it.

    Notes
    -----
    Not for several threads at once.
    """

    cdef RangeReader files
    cdef object decompress
    cdef PageHeaders headers
    cdef Cursor cursor
    cdef PageRows pages      # of the chunk that is walked, as far as they are visited
    cdef Buffer firsts       # the first row of each of these
    cdef Buffer buffer       # of a chunk, or of some pages
    cdef int64_t start, end  # of what is in the buffer
    cdef Buffer dictionary
    cdef Buffer scratch      # of the page that is open, if pages are not kept
    cdef Buffer bodies       # of the pages, if they are kept for a second visit
    cdef readonly int64_t requests
    cdef readonly int64_t num_bytes

    def __cinit__(self, RangeReader files not None, decompress, PageHeaders headers=None):
        self.files, self.decompress, self.headers = files, decompress, headers
        self.cursor = Cursor(b"")

    def __dealloc__(self):
        free(self.pages.rows)
        free(self.firsts.data)
        free(self.buffer.data)
        free(self.dictionary.data)
        free(self.scratch.data)
        free(self.bodies.data)

    def search(
        self, const int64_t[:, ::1] chunks not None, StoredColumn column not None, Targets targets not None, Py_ssize_t most,
        counts=None, ranges=None, bint taken=False
    ):
        """Find the rows of chunks of one column with a value that is, byte for byte, one of some targets.

        Parameters
        ----------
        chunks : of shape (chunks, 7): number of the file, offset, bytes, rows, codec, values, and flags of each.
        column : how its values are stored.
        most : the search ends if there are more rows.
        counts, ranges : of a column without lists, to search those pages alone that have rows of some ranges: how many
            ranges there are of each chunk, and their first row and the row after their last one, of shape (ranges, 2),
            ascending in each chunk. Rows of the same pages that are outside of the ranges may be found, too.
        taken : whether the rows' values are taken, too.

        Returns
        -------
        (counts, rows, target_numbers, values) : how many rows of each chunk there are; their numbers in it, ascending, one
            chunk after the other; the number of the first target that each has; and what `take` returns of them, or
            None. None if there are more than `most`.

        Raises
        ------
        MalformedFooterError, StorageError
            A chunk has to be read in another way.
        """
        cdef Py_ssize_t count = chunks.shape[0], total = 0, i, room = 1
        cdef const int64_t[::1] num_ranges = counts
        cdef const int64_t[:, ::1] all_ranges = ranges
        cdef const int64_t* wanted = NULL
        cdef bint is_limited = ranges is not None
        require_chunks(chunks, len(self.files))
        if most < 0:
            raise ValueError("most must not be negative")
        if is_limited:
            if taken or column.shape.max_repetition:
                raise ValueError("ranges are of columns without lists, of which nothing is taken")
            if all_ranges.shape[1] != 2:
                raise ValueError("there must be two numbers for each range")
            wanted = &all_ranges[0, 0] if all_ranges.shape[0] else NULL
            require_rows(chunks, num_ranges, wanted, all_ranges.shape[0], 2, True)
        all_counts = np.zeros(count, np.int64)
        for i in range(count):
            room = max(room, chunks[i, NUM_ROWS])
        room += most  # the search ends once there are more
        rows, which = np.empty(room, np.int64), np.empty(room, np.int32)
        cdef int64_t[::1] counts_of = all_counts, rows_of = rows
        cdef int32_t[::1] which_of = which
        cdef PageSearch search = PageSearch(column, self.decompress, targets)
        cdef RowTaker taker = RowTaker(column, self.decompress, room) if taken else None
        with nogil:
            for i in range(count):
                if not is_limited or num_ranges[i]:
                    if search.begin(<int>chunks[i, CODEC], chunks[i, NUM_ROWS], &rows_of[total], &which_of[total]):
                        self.walk(&chunks[i, 0], search, wanted, num_ranges[i] if is_limited else 0, 2, taker)
                    counts_of[i] = search.num_found
                    if is_limited:
                        wanted += 2 * num_ranges[i]
                total += counts_of[i]
                if total > most:
                    break
        if total > most:
            return None
        return all_counts, rows[:total].copy(), which[:total].copy(), taker.finish() if taken else None

    def take(
        self, const int64_t[:, ::1] chunks not None, StoredColumn column not None, const int64_t[::1] counts not None,
        const int64_t[::1] rows not None
    ):
        """Take rows out of chunks of one column.

        Parameters
        ----------
        chunks, column : as for `search`; lists of one level.
        counts, rows : how many rows are taken of each chunk, and their numbers in it, ascending; of lists each once.

        Returns
        -------
        What `RowTaker.finish` returns of all rows.

        Raises
        ------
        MalformedFooterError, StorageError
            A chunk has to be read in another way.
        """
        cdef Py_ssize_t i, start = 0
        cdef bint has_lists = column.shape.max_repetition > 0
        require_chunks(chunks, len(self.files))
        require_rows(chunks, counts, &rows[0] if rows.shape[0] else NULL, rows.shape[0], 1, has_lists)
        cdef RowTaker taker = RowTaker(column, self.decompress, rows.shape[0])
        with nogil:
            for i in range(chunks.shape[0]):
                if counts[i]:
                    taker.begin(<int>chunks[i, CODEC], &rows[start], counts[i])
                    self.walk(&chunks[i, 0], taker, NULL if has_lists else &rows[start], counts[i], 1, None)
                    start += counts[i]
        return taker.finish()

    def count_pages(self, const int64_t[:, ::1] chunks not None, StoredColumn column not None):
        """Return how many data pages some chunks have together, of a column without lists; for errors see `search`."""
        cdef Py_ssize_t total = 0, i
        require_chunks(chunks, len(self.files))
        with nogil:
            for i in range(chunks.shape[0]):
                self.find_pages(&chunks[i, 0], chunks[i, NUM_BYTES] <= SMALL_BYTES)
                total += self.pages.count - self.choose_pages(&chunks[i, 0], column, NULL, 0, 1)
        return total

    def read_dictionaries(self, const int64_t[:, ::1] chunks not None, StoredColumn column not None, int64_t most):
        """Read the dictionaries of chunks of one column.

        Parameters
        ----------
        chunks : as for `search`, but the bytes of each are those before its first data page.
        column : how its values are stored.
        most : bytes of values; the dictionaries behind them are left out.

        Returns
        -------
        (counts, ends, values, problems) : how many values each dictionary has, -1 for one that is left out, or cannot be
            used; the end of each value in `values`, a zero in front, or None if all are of one width; the values as they
            are stored, one dictionary after the other; and why some cannot be used, by their numbers.
        """
        cdef Py_ssize_t i, count = chunks.shape[0]
        cdef Entries entries = Entries(column.width, most)
        require_chunks(chunks, len(self.files))
        counts = np.full(count, -1, np.int64)
        cdef int64_t[::1] counts_of = counts
        problems = {}
        for i in range(count):
            try:
                with nogil:
                    counts_of[i] = self.read_dictionary(&chunks[i, 0], entries)
            except (MalformedFooterError, StorageError) as error:
                problems[i] = error.problem
        return counts, *entries.finish(), problems

    cdef int64_t read_dictionary(self, const int64_t* chunk, Entries entries) except -2 nogil:
        """Add the entries of a chunk's dictionary; return how many there are, or -1 if they are too large."""
        cdef int64_t page[FIELDS]
        cdef Page header
        cdef PageBody body
        if not 0 < chunk[NUM_BYTES] <= MOST_BYTES:
            return -1
        reserve(&self.buffer, chunk[NUM_BYTES])
        self.read(chunk, 0, chunk[NUM_BYTES], self.buffer.data)
        self.cursor.data, self.cursor.pos, self.cursor.end = self.buffer.data, 0, chunk[NUM_BYTES]
        describe_page(self.cursor, page)
        if not is_dictionary(page) or page[SIZE] != chunk[NUM_BYTES] - page[HEADER_BYTES]:
            refuse("it is not a dictionary, or does not end where the data pages begin")
        self.cursor.pos = 0
        read_page(self.cursor, &header)
        if header.checksum >= 0:
            require_checksum(self.buffer.data + page[HEADER_BYTES], page[SIZE], header.checksum)
        if page[NUM_VALUES] == 0 and page[UNPACKED] == 0:
            return 0
        try:
            cut_page(&body, self.buffer.data + page[HEADER_BYTES], page, <int>chunk[CODEC], NULL)
            unpack_page(&body, self.decompress, MOST_BYTES)
            return page[NUM_VALUES] if entries.add(body.values, body.value_bytes, page[NUM_VALUES]) else -1
        finally:
            close_page(&body)

    cdef int walk(
        self, const int64_t* chunk, PageVisitor visitor, const int64_t* wanted, Py_ssize_t num_wanted, int step,
        RowTaker taker
    ) except -1 nogil:
        """Let a visitor see the pages of a chunk.

        Parameters
        ----------
        wanted, num_wanted, step : rows whose pages are visited, ascending, of which each is one number, or two: the first
            one of a range and the one after its last; NULL for all pages.
        taker : takes the rows that the visitor, a `PageSearch`, finds; or None.
        """
        cdef bint whole = wanted == NULL
        cdef bint kept = chunk[CODEC] != SNAPPY and chunk[CODEC] != UNCOMPRESSED  # Snappy takes less time than fresh memory
        cdef Py_ssize_t first
        if whole:
            self.read_whole(chunk)
        else:
            whole = self.find_pages(chunk, chunk[NUM_BYTES] <= SMALL_BYTES)
        self.start, self.end = 0 if whole else 1, chunk[NUM_BYTES] if whole else 0
        first = self.choose_pages(chunk, visitor.column, wanted, num_wanted, step)
        if taker is None:
            return self.visit_pages(chunk, visitor, first, whole, False)
        reserve(&self.bodies, self.pages.count * sizeof(PageBody))
        memset(self.bodies.data, 0, self.pages.count * sizeof(PageBody))
        try:
            self.visit_pages(chunk, visitor, first, whole, kept)
            if (<PageSearch>visitor).num_found:
                taker.begin(visitor.codec, (<PageSearch>visitor).rows, (<PageSearch>visitor).num_found)
                self.visit_pages(chunk, taker, first, whole, kept)
        finally:
            for first in range(self.pages.count):
                close_page(<PageBody*>self.bodies.data + first)
        return 0

    cdef int visit_pages(
        self, const int64_t* chunk, PageVisitor visitor, Py_ssize_t first, bint whole, bint kept
    ) except -1 nogil:
        """Let a visitor see the chosen pages from a first one on; `kept`: whether they stay open, up to `MOST_KEPT` bytes."""
        cdef PageBody one
        cdef PageBody* body = &one
        cdef const uint8_t* content
        cdef int64_t* page
        cdef bint has_entries = False
        cdef int64_t num_kept = 0, needed
        cdef Py_ssize_t i
        one.page = NULL
        for i in range(first, self.pages.count):
            page = self.pages.rows + i * FIELDS
            if page[NUM_VALUES] == 0:  # pyarrow writes such pages of lists, without levels
                continue
            content = self.fetch(chunk, i, whole)
            needed = visitor.find_needed(page, (<int64_t*>self.firsts.data)[i])
            if needed == 0:
                break
            if needs_dictionary(page[ENCODING]) and first and not has_entries:
                visitor.open_dictionary(self.fetch(chunk, 0, whole), self.pages.rows)
                has_entries = True
            if kept:
                body = <PageBody*>self.bodies.data + i
            try:
                if body.page == NULL:
                    cut_page(body, content, page, visitor.codec, &visitor.column.shape)
                    if not kept:
                        swap(&self.scratch, &body.scratch)
                    unpack_page(body, self.decompress, needed)
                visitor.visit(body, (<int64_t*>self.firsts.data)[i])
                num_kept += page[UNPACKED] + body.value_bytes
            finally:
                if not kept:
                    swap(&self.scratch, &body.scratch)
                if not kept or num_kept > MOST_KEPT:
                    close_page(body)
        return visitor.end()

    cdef Py_ssize_t choose_pages(
        self, const int64_t* chunk, StoredColumn column, const int64_t* wanted, Py_ssize_t num_wanted, int step
    ) except -1 nogil:
        """Leave those data pages that have some rows, see `walk`; return the number of the first one.

        Raises an error unless all pages together have the values of the chunk, or one value for each row.
        """
        cdef Py_ssize_t first = 1 if self.pages.rows[KIND] == DICTIONARY_PAGE else 0, count = first, at = 0, i
        cdef bint has_lists = column.shape.max_repetition > 0
        cdef int64_t before = 0, total = chunk[VALUES] if has_lists else chunk[NUM_ROWS]
        cdef int64_t* page
        if total > MOST_IN_CHUNK or self.pages.count == 0:
            refuse("its column chunk has too many values, or no pages")
        reserve(&self.firsts, (self.pages.count + 1) * sizeof(int64_t))
        for i in range(first, self.pages.count):
            page = self.pages.rows + i * FIELDS
            if page[KIND] != DATA_PAGE and page[KIND] != DATA_PAGE_V2:
                refuse("it is of another kind")
            if page[NUM_VALUES] > total - before:
                before = -1
                break
            while at < num_wanted and wanted != NULL and wanted[step * at + step - 1] + (step == 1) <= before:
                at += 1
            if wanted == NULL or at < num_wanted and wanted[step * at] < before + page[NUM_VALUES]:
                (<int64_t*>self.firsts.data)[count] = before
                memcpy(self.pages.rows + count * FIELDS, page, FIELDS * sizeof(int64_t))
                count += 1
            before += page[NUM_VALUES]
        if before != total:
            refuse("its values are not those of the column chunk" if has_lists else
                   "its column chunk has not as many rows as the row group")
        self.pages.count = count
        return first

    cdef bint find_pages(self, const int64_t* chunk, bint whole) except -1 nogil:
        """Read the headers of a chunk's pages; return whether all of it was read, as it is if that is less to read."""
        cdef bint is_known = False
        if self.headers is not None and (self.files.is_remote or not whole):
            with gil:
                is_known = self.headers.recall(chunk, &self.pages)
        if is_known:
            return False
        if whole or self.files.is_remote:
            whole = True
            self.read_whole(chunk)
        else:
            with gil:
                try:
                    with nogil:
                        whole = self.read_headers(chunk, SMALL_WINDOW)
                except MalformedFooterError:  # one may be longer
                    with nogil:
                        whole = self.read_headers(chunk, HEADER_WINDOW)
                if not whole and self.headers is not None:
                    self.headers.keep(chunk, &self.pages)
        if self.pages.count == 0:
            self.cursor.fail_with("there are no pages")
        return whole

    cdef int read_whole(self, const int64_t* chunk) except -1 nogil:
        """Read a chunk and the headers of its pages."""
        cdef int64_t size = chunk[NUM_BYTES]
        cdef Py_ssize_t i
        if size > MOST_BYTES:
            refuse("its column chunk is large")
        reserve(&self.buffer, size)
        self.read(chunk, 0, size, self.buffer.data)
        self.cursor.data, self.cursor.pos, self.cursor.end = self.buffer.data, 0, size
        walk_pages(self.cursor, &self.pages, MAX_PAGES)
        for i in range(self.pages.count):
            correct_header(chunk, self.pages.rows + i * FIELDS)
        return 0

    cdef bint read_headers(self, const int64_t* chunk, int64_t most) except -1 nogil:
        """Read the header of each page by itself, in at most so many bytes; or the whole chunk if its pages are small."""
        cdef int64_t size = chunk[NUM_BYTES], at = 0, window, windows = 0
        cdef int64_t* row
        reserve(&self.buffer, HEADER_WINDOW)
        self.pages.count = 0
        while at < size:
            window = min(most, size - at)
            windows += window + READ_COST
            if windows > size:
                self.read_whole(chunk)
                return True
            self.read(chunk, at, window, self.buffer.data)
            self.cursor.data, self.cursor.pos, self.cursor.end = self.buffer.data, 0, window
            row = add_page(&self.pages, MAX_PAGES)
            describe_page(self.cursor, row)
            row[START] = at
            if row[SIZE] > size - at - row[HEADER_BYTES] or (row[KIND] == DICTIONARY_PAGE and at):
                self.cursor.fail_with("a page does not end within its column chunk")
            at += row[HEADER_BYTES] + row[SIZE]
            correct_header(chunk, row)
        return False

    cdef int read(self, const int64_t* chunk, int64_t start, int64_t size, uint8_t* to) except -1 nogil:
        """Read bytes of a chunk from `start` on."""
        if not self.files.read(chunk[FILE], chunk[OFFSET] + start, size, to):
            with gil:
                raise StorageError(f"cannot read {size} bytes at offset {chunk[OFFSET] + start}")
        if not self.files.counts_reads:
            self.requests += 1
            self.num_bytes += size
        return 0

    cdef int complete(self, const int64_t* chunk, int64_t* page, const uint8_t* data) except -1 nogil:
        """Read the header of a page that a page index has told of, whose bytes were read."""
        cdef int64_t header[FIELDS]
        if page[HEADER_BYTES]:
            return 0
        self.cursor.data, self.cursor.pos, self.cursor.end = data, 0, page[SIZE]
        describe_page(self.cursor, header)
        if header[HEADER_BYTES] + header[SIZE] != page[SIZE] or (
            header[KIND] != DICTIONARY_PAGE if page[KIND] == DICTIONARY_PAGE else
            header[KIND] == DICTIONARY_PAGE or header[NUM_VALUES] != page[NUM_VALUES]
        ):
            self.cursor.fail_with("a page is not what the page index says")
        header[START] = page[START]
        memcpy(page, header, FIELDS * sizeof(int64_t))
        correct_header(chunk, page)
        return 0

    cdef const uint8_t* fetch(self, const int64_t* chunk, Py_ssize_t number, bint whole) except NULL nogil:
        """Return what follows the header of a chosen page, reading adjacent ones ahead, or of the dictionary, number 0."""
        cdef int64_t* page = self.pages.rows + number * FIELDS
        cdef int64_t* other
        cdef int64_t size = page[HEADER_BYTES] + page[SIZE], start = self.start, end
        cdef Buffer* buffer = &self.buffer
        cdef Py_ssize_t i
        if not whole and not self.start <= page[START] <= self.end - size:
            if size > MOST_BYTES:
                refuse("it is of a size that is not supported")
            start, end = page[START], page[START] + size
            if page[KIND] == DICTIONARY_PAGE:  # stays while other pages are read
                buffer = &self.dictionary
            else:
                for i in range(number + 1, self.pages.count):
                    other = self.pages.rows + i * FIELDS
                    size = other[HEADER_BYTES] + other[SIZE]
                    if other[START] != end or end + size - start > READ_AHEAD:
                        break
                    end += size
                self.start, self.end = start, end
            reserve(buffer, end - start)
            self.read(chunk, start, end - start, buffer.data)
        self.complete(chunk, page, buffer.data + page[START] - start)
        return buffer.data + page[START] - start + page[HEADER_BYTES]


cdef inline void swap(Buffer* one, Buffer* other) noexcept nogil:
    cdef Buffer first = one[0]
    one[0] = other[0]
    other[0] = first


cdef void correct_header(const int64_t* chunk, int64_t* page) noexcept nogil:
    """Correct what the header of a chunk's page says, or leaves open, by the chunk's flags."""
    if chunk[FLAGS] & COMPRESSED_ALL:
        page[COMPRESSED] = 1
    if page[KIND] != DICTIONARY_PAGE:
        if chunk[FLAGS] & BITS and (page[ENCODING] == PLAIN or page[ENCODING] == RLE):
            page[ENCODING] = PLAIN_BITS if page[ENCODING] == PLAIN else RLE_BITS
        if chunk[FLAGS] & CHAINED and page[ENCODING] == DELTA_BYTE_ARRAY:
            page[ENCODING] = -1


cdef int require_chunks(const int64_t[:, ::1] chunks, Py_ssize_t num_files) except -1:
    """Raise ValueError unless chunks are of the files, and of a possible size."""
    cdef Py_ssize_t i
    if chunks.shape[1] != CHUNK_FIELDS:
        raise ValueError("there must be seven numbers for each chunk")
    for i in range(chunks.shape[0]):
        if not (
            0 <= chunks[i, FILE] < num_files and chunks[i, OFFSET] >= 0 and chunks[i, NUM_BYTES] > 0
            and 0 <= chunks[i, NUM_ROWS] <= MOST_VALUES and 0 <= chunks[i, CODEC] <= 127 and chunks[i, VALUES] >= 0
        ):
            raise MalformedFooterError("metadata: a column chunk has an impossible position or size")
    return 0


cdef int require_rows(
    const int64_t[:, ::1] chunks, const int64_t[::1] counts, const int64_t* wanted, Py_ssize_t size, int step, bint once
) except -1:
    """Raise ValueError unless `size` rows, or ranges, are as many as counted, ascend in each chunk, and are in it.

    Parameters
    ----------
    wanted, step : as for `ChunkBatch.walk`.
    once : whether each row may be there only once.
    """
    cdef Py_ssize_t start = 0, i, j
    cdef int64_t first, end, least
    if counts.shape[0] != chunks.shape[0]:
        raise ValueError("there must be a number of rows, or ranges, for each chunk")
    for i in range(chunks.shape[0]):
        if not 0 <= counts[i] <= size - start:
            raise ValueError("there are not as many rows, or ranges, as counted")
        least = 0
        for j in range(start, start + counts[i]):
            first = wanted[step * j]
            end = wanted[step * j + 1] if step == 2 else first + (first < chunks[i, NUM_ROWS])
            if not least <= first < end <= chunks[i, NUM_ROWS]:
                raise ValueError("rows and ranges must ascend, and be in their chunk")
            least = end if once else first
        start += counts[i]
    if start != size:
        raise ValueError("there are more rows, or ranges, than counted")
    return 0

# cython: boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Column chunks of many files, searched, and with rows taken out of them, in few calls.

The files are read by a `RangeReader`: local ones by `OpenFiles`, without the interpreter lock, which is held only to
decompress pages with codecs that compiled code does not know; any other by `FetchedRanges`. Nothing here trusts the bytes:
what is not as usual ends in an error, and is then read in another way.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

import numpy as np

from ...errors import MalformedFooterError, StorageError

from ...metadata.page_decode cimport (
    COMPRESSED, DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, ENCODING, FIELDS, HEADER_BYTES, KIND, MOST_VALUES, NUM_VALUES, OTHER_ROWS,
    PLAIN, RLE, SIZE, SNAPPY, START, UNCOMPRESSED, UNSUPPORTED, needs_dictionary, require_pages
)
from ...metadata.page_encodings cimport DELTA_BYTE_ARRAY, PLAIN_BITS, RLE_BITS, fail_page
from ...metadata.list_match cimport ListShape, make_shape, search_list_pages, take_lists
from ...metadata.page_match cimport Targets, search_chunk
from ...metadata.page_rows cimport RowTaker
from ...metadata.thrift_compact cimport Cursor, PageRows, add_page, describe_page, walk_pages
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
    MAX_PAGE_BYTES = 64 << 20      # larger pages, and larger chunks that are to be searched, are left to pyarrow

MAX_CHUNK_BYTES = MAX_PAGE_BYTES
"""Larger column chunks are not searched."""

HAS_BITS, IS_CHAINED, IS_COMPRESSED = BITS, CHAINED, COMPRESSED_ALL
"""Flags of a chunk: its values are booleans; pages of DELTA_BYTE_ARRAY may go on from the page before (see
`Doubt.SINGLE_PAGES`); pages are compressed whatever their headers say (see `Footer.denies_compression`)."""


cdef struct Buffer:
    uint8_t* data
    int64_t size


cdef int reserve(Buffer* buffer, int64_t size) except -1 nogil:
    """Make room for some bytes, without keeping what is there."""
    cdef uint8_t* data
    if size > buffer.size:
        free(buffer.data)
        buffer.data, buffer.size = NULL, 0
        data = <uint8_t*>realloc(NULL, size)
        if data == NULL:
            with gil:
                raise MemoryError
        buffer.data, buffer.size = data, size
    return 0


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
        cdef Py_ssize_t count = pages.count * FIELDS, i
        cdef dict kept = self.files[chunk[FILE]]
        cdef int32_t* values
        packed = PyBytes_FromStringAndSize(NULL, count * sizeof(int32_t))
        values = <int32_t*>PyBytes_AS_STRING(packed)
        for i in range(count):
            values[i] = <int32_t>pages.rows[i]
            if values[i] != pages.rows[i]:  # of a chunk of more than 2 GiB
                return 0
        if sum(map(len, list(kept.values()))) + len(packed) <= self.most:
            kept[chunk[OFFSET]] = packed
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


cdef class ListsTaken:
    """Lists of some rows, with their elements.

    Parameters
    ----------
    width : bytes per element; 0 for length-prefixed byte arrays.
    most : rows, at most.
    """

    cdef RowTaker elements
    cdef object _valid, _lengths
    cdef uint8_t[::1] valid
    cdef int32_t[::1] lengths
    cdef Py_ssize_t count

    def __cinit__(self, Py_ssize_t width, Py_ssize_t most):
        self.elements = RowTaker(width, False, 0)
        self._valid, self._lengths = np.empty(most, np.uint8), np.empty(most, np.int32)
        self.valid, self.lengths = self._valid, self._lengths

    cdef int take(
        self, const uint8_t* data, const int64_t* pages, Py_ssize_t num_pages, int codec, const ListShape* shape,
        int64_t num_values, const int64_t* rows, Py_ssize_t count
    ) except -1 nogil:
        """Append the lists of some rows of a chunk; see `list_match.take_lists`."""
        take_lists(
            self.elements, data, pages, num_pages, codec, shape, num_values, rows, count, &self.valid[self.count],
            &self.lengths[self.count]
        )
        self.count += count
        return 0

    def finish(self):
        """Return what `ChunkBatch.take_lists` does."""
        self.elements.num_rows = self.elements.taken
        ends = np.zeros(self.count + 1, np.int32)
        np.cumsum(self._lengths[:self.count], out=ends[1:])
        return self._valid[:self.count].view(np.bool_), ends, self.elements.finish()


cdef class ChunkBatch:
    """Reads column chunks of files that are open.

    Parameters
    ----------
    files : the files, of which chunks are given by their numbers.
    unpack : called with (bytes of pages, their headers as `index_pages` gives them, codec) for codecs other than Snappy;
        returns (bytes, headers, codec) of the same pages, uncompressed or in Snappy; see `rows.unpack_pages`.
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
    cdef object unpack
    cdef PageHeaders headers
    cdef Cursor cursor
    cdef PageRows pages
    cdef PageRows chosen     # pages that are searched
    cdef Buffer firsts       # the first row of each of these
    cdef Buffer buffer       # of a chunk, or of a page
    cdef Buffer dictionary
    cdef object unpacked     # keeps alive what `unpack` returned
    cdef object unpacked_dictionary
    cdef readonly int64_t requests
    cdef readonly int64_t num_bytes

    def __cinit__(self, RangeReader files not None, unpack, PageHeaders headers=None):
        self.files, self.unpack, self.headers = files, unpack, headers
        self.cursor = Cursor(b"")

    def __dealloc__(self):
        free(self.pages.rows)
        free(self.chosen.rows)
        free(self.firsts.data)
        free(self.buffer.data)
        free(self.dictionary.data)

    def search(
        self, const int64_t[:, ::1] chunks not None, Py_ssize_t width, bint required, Targets targets not None,
        Py_ssize_t most
    ):
        """Find the rows of chunks of one column whose value is, byte for byte, one of some targets.

        Parameters
        ----------
        chunks : of shape (chunks, 7): number of the file, offset, bytes, rows, codec, values, and flags of each.
        width : bytes per value; 0 for length-prefixed byte arrays.
        required : whether each row has a value.
        most : the search ends if there are more rows.

        Returns
        -------
        (counts, rows, target_numbers) : how many rows of each chunk there are; their numbers in it, ascending, one chunk
            after the other; and the number of the target that each has. None if there are more than `most`.

        Raises
        ------
        MalformedFooterError, StorageError
            A chunk has to be read in another way.
        """
        cdef Py_ssize_t count = chunks.shape[0], total = 0, i, room = find_room(chunks, len(self.files), width, most)
        all_counts = np.zeros(count, np.int64)
        rows, which = np.empty(room, np.int64), np.empty(room, np.int32)
        cdef int64_t[::1] counts_of = all_counts, rows_of = rows
        cdef int32_t[::1] which_of = which
        with nogil:
            for i in range(count):
                counts_of[i] = self.search_one(&chunks[i, 0], width, required, targets, &rows_of[total], &which_of[total])
                total += counts_of[i]
                if total > most:
                    break
        if total > most:
            return None
        return all_counts, rows[:total].copy(), which[:total].copy()

    cdef Py_ssize_t search_one(
        self, const int64_t* chunk, Py_ssize_t width, bint required, Targets targets, int64_t* rows, int32_t* which
    ) except -1 nogil:
        cdef Py_ssize_t matches
        cdef const uint8_t* data
        cdef const int64_t* pages
        cdef int codec = <int>chunk[CODEC]
        self.load(chunk, &codec, &data, &pages)
        matches = search_chunk(
            data, pages, self.pages.count, width, codec, required, chunk[NUM_ROWS], targets, rows, which
        )
        if matches < 0:
            with gil:
                fail_page(matches)
        return matches

    def search_rows(
        self, const int64_t[:, ::1] chunks not None, Py_ssize_t width, bint required, Targets targets not None,
        Py_ssize_t most, const int64_t[::1] counts not None, const int64_t[:, ::1] ranges not None
    ):
        """Find rows as `search` does, in those pages alone that have rows of some ranges.

        Parameters
        ----------
        chunks, width, required, targets, most : as for `search`.
        counts, ranges : how many ranges there are of each chunk, and their first row and the row after their last one, of
            shape (ranges, 2), ascending in each chunk.

        Returns
        -------
        As `search` does. Rows of the same pages that are outside of the ranges may be among them.

        Raises
        ------
        MalformedFooterError, StorageError
            A chunk has to be read in another way.
        """
        cdef Py_ssize_t count = chunks.shape[0], total = 0, i, room = find_room(chunks, len(self.files), width, most)
        require_ranges(chunks, counts, ranges)
        all_counts = np.zeros(count, np.int64)
        rows, which = np.empty(room, np.int64), np.empty(room, np.int32)
        cdef int64_t[::1] counts_of = all_counts, rows_of = rows
        cdef int32_t[::1] which_of = which
        cdef const int64_t* of_chunk = &ranges[0, 0] if ranges.shape[0] else NULL
        with nogil:
            for i in range(count):
                if counts[i]:
                    counts_of[i] = self.search_rows_of(
                        &chunks[i, 0], width, required, targets, of_chunk, counts[i], &rows_of[total], &which_of[total]
                    )
                    of_chunk += 2 * counts[i]
                total += counts_of[i]
                if total > most:
                    break
        if total > most:
            return None
        return all_counts, rows[:total].copy(), which[:total].copy()

    cdef Py_ssize_t search_rows_of(
        self, const int64_t* chunk, Py_ssize_t width, bint required, Targets targets, const int64_t* ranges,
        Py_ssize_t num_ranges, int64_t* rows, int32_t* which
    ) except -1 nogil:
        cdef bint whole = self.find_pages(chunk, chunk[NUM_BYTES] <= SMALL_BYTES)
        cdef int64_t num_rows = self.choose_pages(chunk, ranges, num_ranges)
        cdef int64_t size = chunk[NUM_BYTES] if whole else self.read_chosen(chunk), before = 0
        cdef Py_ssize_t matches, i, page = 0
        cdef int codec = <int>chunk[CODEC]
        cdef const uint8_t* data = self.buffer.data
        cdef const int64_t* pages = self.chosen.rows
        cdef const int64_t* firsts = <const int64_t*>self.firsts.data
        if codec != UNCOMPRESSED and codec != SNAPPY:
            with gil:
                self.unpacked = self.unpack_pages(data, size, pages, self.chosen.count, &codec)
                data, pages = data_of(self.unpacked), pages_of(self.unpacked)
        matches = search_chunk(data, pages, self.chosen.count, width, codec, required, num_rows, targets, rows, which)
        if matches < 0:
            with gil:
                fail_page(matches)
        pages = self.chosen.rows
        if pages[KIND] == DICTIONARY_PAGE:
            page = 1
        for i in range(matches):
            while rows[i] >= before + pages[page * FIELDS + NUM_VALUES]:
                before += pages[page * FIELDS + NUM_VALUES]
                page += 1
            rows[i] += firsts[page] - before
        return matches

    cdef int64_t choose_pages(self, const int64_t* chunk, const int64_t* ranges, Py_ssize_t num_ranges) except -1 nogil:
        """Choose the pages with rows of some ranges, and the dictionary, if any; return how many rows they have."""
        cdef Py_ssize_t first = self.require_all_rows(chunk), i, at = 0
        cdef int64_t before = 0, num_rows = 0
        cdef int64_t* page
        cdef int64_t* firsts
        reserve(&self.firsts, (self.pages.count + 1) * sizeof(int64_t))
        firsts = <int64_t*>self.firsts.data
        self.chosen.count = 0
        if first:
            memcpy(add_page(&self.chosen, MAX_PAGES), self.pages.rows, FIELDS * sizeof(int64_t))
            firsts[0] = 0
        for i in range(first, self.pages.count):
            page = self.pages.rows + i * FIELDS
            while at < num_ranges and ranges[2 * at + 1] <= before:
                at += 1
            if at == num_ranges:
                break
            if ranges[2 * at] < before + page[NUM_VALUES] and page[NUM_VALUES]:
                firsts[self.chosen.count] = before
                memcpy(add_page(&self.chosen, MAX_PAGES), page, FIELDS * sizeof(int64_t))
                num_rows += page[NUM_VALUES]
            before += page[NUM_VALUES]
        if num_rows == 0:
            self.cursor.fail_with("there are no pages of these rows")
        return num_rows

    cdef int64_t read_chosen(self, const int64_t* chunk) except -1 nogil:
        """Read the chosen pages, one after the other, adjacent ones at once; return how many bytes they have.

        A dictionary that they do not need is not read, and then no more among them.
        """
        cdef Py_ssize_t i, first = 1 if self.chosen.rows[KIND] == DICTIONARY_PAGE else 0
        cdef int64_t size = 0, start = 0, run = 0, num_bytes, at = 0
        cdef bint needed = False
        cdef int64_t* page
        for i in range(self.chosen.count):
            page = self.chosen.rows + i * FIELDS
            size += page[HEADER_BYTES] + page[SIZE]
        if size > MAX_PAGE_BYTES:
            with gil:
                fail_page(UNSUPPORTED)
        reserve(&self.buffer, size)
        for i in range(first, self.chosen.count):
            page = self.chosen.rows + i * FIELDS
            num_bytes = page[HEADER_BYTES] + page[SIZE]
            if run and page[START] != start + run:
                self.read(chunk, start, run, self.buffer.data + at - run)
                run = 0
            if run == 0:
                start = page[START]
            page[START] = at
            run += num_bytes
            at += num_bytes
        self.read(chunk, start, run, self.buffer.data + at - run)
        for i in range(first, self.chosen.count):
            page = self.chosen.rows + i * FIELDS
            self.complete(chunk, page, self.buffer.data + page[START])
            needed = needed or needs_dictionary(page)
        page = self.chosen.rows
        if first and needed:
            num_bytes = page[HEADER_BYTES] + page[SIZE]
            self.read(chunk, page[START], num_bytes, self.buffer.data + at)
            self.complete(chunk, page, self.buffer.data + at)
            page[START] = at
            at += num_bytes
        elif first:
            self.chosen.count -= 1
            memmove(page, page + FIELDS, self.chosen.count * FIELDS * sizeof(int64_t))
            memmove(self.firsts.data, self.firsts.data + sizeof(int64_t), self.chosen.count * sizeof(int64_t))
        return at

    def count_pages(self, const int64_t[:, ::1] chunks not None):
        """Return how many data pages some chunks have together, one value a row; for errors see `search`."""
        cdef Py_ssize_t total = 0, i
        require_chunks(chunks, len(self.files))
        with nogil:
            for i in range(chunks.shape[0]):
                self.find_pages(&chunks[i, 0], chunks[i, NUM_BYTES] <= SMALL_BYTES)
                total += self.pages.count - self.require_all_rows(&chunks[i, 0])
        return total

    def search_lists(
        self, const int64_t[:, ::1] chunks not None, Py_ssize_t width, const int64_t[::1] least not None,
        int max_definition, Targets targets not None, Py_ssize_t most, bint taken
    ):
        """Find the rows of chunks of one column with lists that have an element that is one of some targets.

        Parameters
        ----------
        chunks, width, targets, most : as for `search`.
        least, max_definition : as for `list_match.search_lists`.
        taken : whether the lists are taken, too.

        Returns
        -------
        (counts, rows, lists) : as `search` and `take_lists` return them; no lists if they are not taken.

        Raises
        ------
        MalformedFooterError, StorageError
            A chunk has to be read in another way.
        """
        cdef Py_ssize_t count = chunks.shape[0], total = 0, i, room = find_room(chunks, len(self.files), width, most)
        cdef ListShape shape = make_shape(least, max_definition)
        all_counts, rows = np.zeros(count, np.int64), np.empty(room, np.int64)
        cdef int64_t[::1] counts_of = all_counts, rows_of = rows
        cdef ListsTaken lists = ListsTaken(width, room) if taken else None
        with nogil:
            for i in range(count):
                counts_of[i] = self.search_one_list(&chunks[i, 0], width, &shape, targets, &rows_of[total], lists)
                total += counts_of[i]
                if total > most:
                    break
        return None if total > most else (all_counts, rows[:total].copy(), lists.finish() if taken else None)

    cdef Py_ssize_t search_one_list(
        self, const int64_t* chunk, Py_ssize_t width, const ListShape* shape, Targets targets, int64_t* rows,
        ListsTaken lists
    ) except -1 nogil:
        cdef Py_ssize_t matches
        cdef const uint8_t* data
        cdef const int64_t* pages
        cdef int codec = <int>chunk[CODEC]
        self.load(chunk, &codec, &data, &pages)
        matches = search_list_pages(
            data, pages, self.pages.count, width, codec, shape, chunk[NUM_ROWS], chunk[VALUES], targets, rows
        )
        if matches < 0:
            with gil:
                fail_page(matches)
        if matches and lists is not None:
            lists.take(data, pages, self.pages.count, codec, shape, chunk[VALUES], rows, matches)
        return matches

    def take_lists(
        self, const int64_t[:, ::1] chunks not None, Py_ssize_t width, const int64_t[::1] least not None,
        int max_definition, const int64_t[::1] counts not None, const int64_t[::1] rows not None
    ):
        """Take lists out of chunks of one column, whose lists have one level.

        Parameters
        ----------
        chunks, width, least, max_definition : as for `search_lists`.
        counts, rows : as for `take`; each row once.

        Returns
        -------
        (valid, ends, elements) : valid, bool, whether a row has a list; ends, int32, of the lists, beginning with 0;
            and (valid, ends, values) of the elements, as `RowTaker.finish` returns them.

        Raises
        ------
        MalformedFooterError, StorageError
            A chunk has to be read in another way.
        """
        cdef Py_ssize_t i, start = 0
        cdef ListShape shape = make_shape(least, max_definition)
        cdef ListsTaken lists = ListsTaken(width, rows.shape[0])
        cdef const uint8_t* data
        cdef const int64_t* pages
        cdef int codec
        require_rows(chunks, len(self.files), counts, rows, True)
        with nogil:
            for i in range(chunks.shape[0]):
                if counts[i]:
                    codec = <int>chunks[i, CODEC]
                    self.load(&chunks[i, 0], &codec, &data, &pages)
                    lists.take(
                        data, pages, self.pages.count, codec, &shape, chunks[i, VALUES], &rows[start], counts[i]
                    )
                    start += counts[i]
        return lists.finish()

    cdef int load(
        self, const int64_t* chunk, int* codec, const uint8_t** data, const int64_t** pages
    ) except -1 nogil:
        """Read a chunk and the headers of its pages, in a codec that compiled code knows."""
        cdef int64_t size = chunk[NUM_BYTES]
        if size > MAX_PAGE_BYTES:
            with gil:
                fail_page(UNSUPPORTED)
        self.read_whole(chunk)
        data[0], pages[0] = self.buffer.data, self.pages.rows
        if codec[0] != UNCOMPRESSED and codec[0] != SNAPPY:
            with gil:
                self.unpacked = self.unpack_pages(self.buffer.data, size, self.pages.rows, self.pages.count, codec)
                data[0], pages[0] = data_of(self.unpacked), pages_of(self.unpacked)
        return 0

    cdef int read_whole(self, const int64_t* chunk) except -1 nogil:
        """Read a chunk and the headers of its pages."""
        cdef int64_t size = chunk[NUM_BYTES]
        cdef Py_ssize_t i
        reserve(&self.buffer, size)
        self.read(chunk, 0, size, self.buffer.data)
        self.cursor.data, self.cursor.pos, self.cursor.end = self.buffer.data, 0, size
        walk_pages(self.cursor, &self.pages, MAX_PAGES)
        for i in range(self.pages.count):
            correct_header(chunk, self.pages.rows + i * FIELDS)
        return 0

    cdef int read(self, const int64_t* chunk, int64_t start, int64_t size, uint8_t* to) except -1 nogil:
        """Read bytes of a chunk from `start` on."""
        if not self.files.read(chunk[FILE], chunk[OFFSET] + start, size, to):
            with gil:
                raise StorageError(f"cannot read {size} bytes at offset {chunk[OFFSET] + start}")
        if not self.files.counts_reads:
            self.requests += 1
            self.num_bytes += size
        return 0

    cdef tuple unpack_pages(self, const uint8_t* data, int64_t size, const int64_t* pages, Py_ssize_t count, int* codec):
        """Decompress pages; return their bytes and headers as arrays."""
        source, table = np.empty(size, np.uint8), np.empty((count, FIELDS), np.int64)
        cdef uint8_t[::1] bytes_of = source
        cdef int64_t[:, ::1] rows_of = table
        if count == 0 or size == 0:
            raise MalformedFooterError("page: there is none")
        memcpy(&bytes_of[0], data, size)
        memcpy(&rows_of[0, 0], pages, count * FIELDS * sizeof(int64_t))
        unpacked, table, codec[0] = self.unpack(memoryview(source), table, codec[0])
        result = np.frombuffer(unpacked, np.uint8), np.ascontiguousarray(table, np.int64)
        require_pages(result[0], result[1])
        if len(result[1]) != count:
            raise ValueError("other pages were unpacked")
        return result

    def take(
        self, const int64_t[:, ::1] chunks not None, Py_ssize_t width, bint required,
        const int64_t[::1] counts not None, const int64_t[::1] rows not None
    ):
        """Take rows out of chunks of one column.

        Parameters
        ----------
        chunks, width, required : as for `search`.
        counts, rows : how many rows are taken of each chunk, and their numbers in it, ascending.

        Returns
        -------
        (valid, ends, values) as `RowTaker.finish` returns them, of all rows.

        Raises
        ------
        MalformedFooterError, StorageError
            A chunk has to be read in another way.
        """
        cdef Py_ssize_t i, start = 0
        require_rows(chunks, len(self.files), counts, rows, False)
        cdef RowTaker taker = RowTaker(width, required, rows.shape[0])
        with nogil:
            for i in range(chunks.shape[0]):
                if counts[i]:
                    self.take_one(taker, &chunks[i, 0], &rows[start], counts[i])
                    start += counts[i]
        return taker.finish()

    cdef int take_one(
        self, RowTaker taker, const int64_t* chunk, const int64_t* rows, Py_ssize_t count
    ) except -1 nogil:
        cdef int codec = <int>chunk[CODEC]
        cdef bint whole = self.find_pages(chunk, chunk[NUM_BYTES] <= SMALL_BYTES)
        cdef int64_t before = 0
        cdef Py_ssize_t first = self.require_all_rows(chunk), start = 0, stop, i
        cdef int64_t* page
        cdef const uint8_t* data
        taker.begin(codec if codec == SNAPPY else UNCOMPRESSED)
        for i in range(first, self.pages.count):
            page = self.pages.rows + i * FIELDS
            stop = start
            while stop < count and rows[stop] < before + page[NUM_VALUES]:
                stop += 1
            if stop > start:
                data = self.fetch(chunk, page, whole, &self.buffer)
                if needs_dictionary(page) and first and taker.num_entries < 0:
                    self.take_dictionary(taker, chunk, whole, codec)
                self.take_page(taker, data, page, codec, before, rows + start, stop - start)
            start = stop
            before += page[NUM_VALUES]
        return 0

    cdef Py_ssize_t require_all_rows(self, const int64_t* chunk) except -1 nogil:
        """Raise an error unless the pages have one value for each row; return the number of the first data page."""
        cdef Py_ssize_t first = 1 if self.pages.rows[KIND] == DICTIONARY_PAGE else 0, i
        cdef int64_t before = 0
        cdef int64_t* page
        for i in range(first, self.pages.count):
            page = self.pages.rows + i * FIELDS
            if page[KIND] != DATA_PAGE and page[KIND] != DATA_PAGE_V2 or page[NUM_VALUES] > chunk[NUM_ROWS] - before:
                with gil:
                    fail_page(OTHER_ROWS)
            before += page[NUM_VALUES]
        if before != chunk[NUM_ROWS]:
            with gil:
                fail_page(OTHER_ROWS)
        return first

    cdef bint find_pages(self, const int64_t* chunk, bint whole) except -1 nogil:
        """Read the headers of a chunk's pages; return whether all of it was read, as it is if that is less to read."""
        if self.files.is_remote:
            with gil:
                whole = self.headers is None or not self.headers.recall(chunk, &self.pages)
                if whole and chunk[NUM_BYTES] > MAX_PAGE_BYTES:
                    fail_page(UNSUPPORTED)
        if whole:
            self.read_whole(chunk)
        elif self.files.is_remote:
            pass
        else:
            with gil:
                if self.headers is None or not self.headers.recall(chunk, &self.pages):
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
                if size > MAX_PAGE_BYTES:
                    with gil:
                        fail_page(UNSUPPORTED)
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

    cdef const uint8_t* fetch(self, const int64_t* chunk, int64_t* page, bint whole, Buffer* buffer) except NULL nogil:
        """Return the bytes of a page, header included."""
        cdef int64_t size = page[HEADER_BYTES] + page[SIZE]
        if whole:
            return self.buffer.data + page[START]
        if size > MAX_PAGE_BYTES:
            with gil:
                fail_page(UNSUPPORTED)
        reserve(buffer, size)
        self.read(chunk, page[START], size, buffer.data)
        self.complete(chunk, page, buffer.data)
        return buffer.data

    cdef int take_dictionary(self, RowTaker taker, const int64_t* chunk, bint whole, int codec) except -1 nogil:
        """Give the dictionary of a chunk, which is its first page, to a taker."""
        cdef int64_t header[FIELDS]
        cdef const uint8_t* data
        cdef int problem
        data = self.fetch(chunk, self.pages.rows, whole, &self.dictionary)
        if self.pages.rows[NUM_VALUES] > MOST_VALUES:
            with gil:
                fail_page(UNSUPPORTED)
        memcpy(header, self.pages.rows, FIELDS * sizeof(int64_t))
        header[START] = 0
        if codec != UNCOMPRESSED and codec != SNAPPY:
            with gil:
                self.unpacked_dictionary = self.unpack_page(data, header, codec)
                data = data_of(self.unpacked_dictionary)
                memcpy(header, pages_of(self.unpacked_dictionary), FIELDS * sizeof(int64_t))
        problem = taker.open_dictionary(data, header)
        if problem:
            with gil:
                fail_page(problem)
        return 0

    cdef int take_page(
        self, RowTaker taker, const uint8_t* data, const int64_t* page, int codec, int64_t before, const int64_t* rows,
        Py_ssize_t count
    ) except -1 nogil:
        cdef int64_t header[FIELDS]
        cdef int problem
        memcpy(header, page, FIELDS * sizeof(int64_t))
        header[START] = 0
        if codec != UNCOMPRESSED and codec != SNAPPY:
            with gil:
                self.unpacked = self.unpack_page(data, header, codec)
                data = data_of(self.unpacked)
                memcpy(header, pages_of(self.unpacked), FIELDS * sizeof(int64_t))
        problem = taker.take_page(data, header, before, rows, count)
        if problem:
            with gil:
                fail_page(problem)
        return 0

    cdef tuple unpack_page(self, const uint8_t* data, const int64_t* header, int codec):
        """Decompress a page, of which `header` has the position 0; the result is uncompressed."""
        unpacked = self.unpack_pages(data, header[HEADER_BYTES] + header[SIZE], header, 1, &codec)
        if codec != UNCOMPRESSED:
            raise MalformedFooterError(f"page: codec {codec}")
        return unpacked


cdef void correct_header(const int64_t* chunk, int64_t* page) noexcept nogil:
    """Correct what the header of a chunk's page says, or leaves open, by the chunk's flags."""
    if chunk[FLAGS] & COMPRESSED_ALL:
        page[COMPRESSED] = 1
    if page[KIND] != DICTIONARY_PAGE:
        if chunk[FLAGS] & BITS and (page[ENCODING] == PLAIN or page[ENCODING] == RLE):
            page[ENCODING] = PLAIN_BITS if page[ENCODING] == PLAIN else RLE_BITS
        if chunk[FLAGS] & CHAINED and page[ENCODING] == DELTA_BYTE_ARRAY:
            page[ENCODING] = -1


cdef const uint8_t* data_of(tuple unpacked) except? NULL:
    cdef const uint8_t[::1] data = unpacked[0]
    return &data[0] if data.shape[0] else NULL


cdef const int64_t* pages_of(tuple unpacked) except NULL:
    cdef const int64_t[:, ::1] pages = unpacked[1]
    return &pages[0, 0]


cdef Py_ssize_t find_room(const int64_t[:, ::1] chunks, Py_ssize_t num_files, Py_ssize_t width, Py_ssize_t most) except -1:
    """Return for how many rows a search needs room that ends once there are more than `most`."""
    cdef Py_ssize_t largest = 1, i
    require_chunks(chunks, num_files)
    for i in range(chunks.shape[0]):
        largest = max(largest, chunks[i, NUM_ROWS])
    if width < 0 or most < 0:
        raise ValueError("width and most must not be negative")
    return most + largest


cdef int require_rows(
    const int64_t[:, ::1] chunks, Py_ssize_t num_files, const int64_t[::1] counts, const int64_t[::1] rows, bint once
) except -1:
    """Raise ValueError unless there are as many rows as counted, ascending in each chunk; perhaps each only once."""
    cdef Py_ssize_t i, j, start = 0
    require_chunks(chunks, num_files)
    if counts.shape[0] != chunks.shape[0]:
        raise ValueError("there must be a number of rows for each chunk")
    for i in range(chunks.shape[0]):
        if not 0 <= counts[i] <= rows.shape[0] - start:
            raise ValueError("there are not as many rows as counted")
        for j in range(start, start + counts[i]):
            if not (rows[j - 1] + once if j > start else 0) <= rows[j] < chunks[i, NUM_ROWS]:
                raise ValueError("rows must ascend, and be in their chunk")
        start += counts[i]
    if start != rows.shape[0]:
        raise ValueError("there are more rows than counted")
    return 0


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


cdef int require_ranges(
    const int64_t[:, ::1] chunks, const int64_t[::1] counts, const int64_t[:, ::1] ranges
) except -1:
    """Raise ValueError unless ranges of rows ascend, and are in their chunk."""
    cdef Py_ssize_t start = 0, i, j
    cdef int64_t end
    if counts.shape[0] != chunks.shape[0] or ranges.shape[1] != 2:
        raise ValueError("there must be a number of ranges for each chunk, and two numbers for each range")
    for i in range(counts.shape[0]):
        if not 0 <= counts[i] <= ranges.shape[0] - start:
            raise ValueError("there are not as many ranges as counted")
        end = 0
        for j in range(start, start + counts[i]):
            if not end <= ranges[j, 0] < ranges[j, 1] <= chunks[i, NUM_ROWS]:
                raise ValueError("ranges must ascend, and be in their chunk")
            end = ranges[j, 1]
        start += counts[i]
    if start != ranges.shape[0]:
        raise ValueError("there are more ranges than counted")
    return 0

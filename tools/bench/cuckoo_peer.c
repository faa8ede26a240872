/* A row of aligned Cuckoo filters looked through as the program they come from does it: the row is read into memory of its
   own, and each slot of each unit compared in turn. */
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

int64_t scan_row(int descriptor, int64_t offset, int64_t num_slots, const uint8_t *slots, int64_t num_units,
                 uint16_t wanted, uint32_t *out) {
    size_t size = (size_t)num_slots * sizeof(uint16_t);
    uint16_t *row = malloc(size);
    size_t done = 0;
    int64_t found = 0;
    while (row && done < size) {
        ssize_t got = pread(descriptor, (char *)row + done, size - done, offset + (int64_t)done);
        if (got <= 0) break;
        done += (size_t)got;
    }
    if (row && done == size) {
        const uint16_t *slot = row;
        for (int64_t unit = 0; unit < num_units; unit++)
            for (uint8_t left = slots[unit]; left; left--)
                if (*slot++ == wanted) out[found++] = (uint32_t)unit;
    }
    free(row);
    return found;
}

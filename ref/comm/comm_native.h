// SPDX-License-Identifier: Apache-2.0
// Sums in a transport's own order (`train --native-reduction`), each compared with the canonical one.
#ifndef ZG_COMM_NATIVE_H
#define ZG_COMM_NATIVE_H

#include <stdint.h>

struct comm;

// What has been compared.
struct comm_native {
    uint64_t sums;                         // collectives that added up, in all
    uint64_t elements, different;          // of the results, a sum over ranks; of them, those with other bits
    uint64_t first_sum;                    // the number, from 1 up, of the first sum that differs; 0: none does
    uint64_t first_rank, first_element;    // where: the lowest such rank, and its place in the whole buffer
    uint32_t canonical_bits, native_bits;  // of that element
};

// From now on reduce-scatter and all-reduce leave the transport's own sums; maxima stay as they are. What is counted as
// sent stays what the canonical collective sends. All ranks call it. ERR_USAGE: this transport has none.
int comm_native_begin(struct comm *comm);

// Collective, not counted: what all ranks have found since.
int comm_native_found(struct comm *comm, struct comm_native *out);

#endif

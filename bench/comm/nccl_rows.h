// SPDX-License-Identifier: Apache-2.0
// `bench comm --nccl`: NCCL's operations by themselves, of every type and reduction, called and in a CUDA graph. What
// ranks send is such that every result is exact in whichever order it is reduced, and each element is compared.
#pragma once

#include "bench/comm/comm_ranks.h"
#include "bench/harness/bench.h"

// Those of `enum operation`, and what no stage of ZeRO uses: to and from rank 0, and from each rank to the next.
enum { NCCL_REDUCE = OPERATION_KINDS, NCCL_GATHER, NCCL_SCATTER, NCCL_SEND_RECEIVE, NCCL_OPERATION_COUNT };

// Types and reductions have the numbers of nccl.h.
enum { NCCL_TYPE_COUNT = 12, NCCL_E4M3 = 10 };
enum { NCCL_SUM, NCCL_PROD, NCCL_MAX, NCCL_MIN, NCCL_AVG, NCCL_REDUCTION_COUNT };

// An operation on `count` elements of the whole buffer, a multiple of the ranks.
struct nccl_call {
    int operation, type, reduction;
    size_t count;
    const char *send;
    char *recv;
};

const char *nccl_operation_name(int operation);
const char *nccl_type_name(int type);
const char *nccl_reduction_name(int reduction);
size_t nccl_type_bytes(int type);
bool nccl_reduces(int operation);

// Returns the elements that a rank sends and receives.
size_t nccl_send_count(const struct nccl_call *call, int world, int rank);
size_t nccl_recv_count(const struct nccl_call *call, int world, int rank);

// Returns the bytes that the busiest rank must send or receive over those of the whole buffer, as nccl-tests have it.
double nccl_bus_factor(int operation, int world);

// Returns whether the operation's results are exact: NCCL averages floating-point numbers by a product with 1/world,
// which must be a power of two, and sums of integers as large as the world must be numbers of the type.
bool nccl_is_exact(int operation, int type, int reduction, int world);

// Return the bits of an element that a rank sends or must receive, in the low bytes.
uint64_t nccl_sent(const struct nccl_call *call, int world, int rank, size_t index);
uint64_t nccl_expected(const struct nccl_call *call, int world, int rank, size_t index);

// Enqueues a call on the thread's stream, as a function of nccl_graph_open; ranks are over NCCL. The operations that
// are none of NCCL before 2.28 are groups of sends and receives.
int nccl_call_enqueue(struct comm *comm, const void *call);

// The same, and waits for its end.
int nccl_call_run(struct comm *comm, const struct nccl_call *call);

// Returns why this NCCL or device has no such operation; null: it has.
const char *nccl_call_absent(const struct comm *comm, int operation, int type);

// The choice of the options; -1: all.
struct nccl_choice {
    struct comm *comm;
    const struct bench_device *device;
    int operation, type, reduction;
};

// Finds an operation, type or reduction by its name, or "all", -1. ERR_USAGE: there is none; the message lists them.
int nccl_choose(const char *option, const char *name, const char *(*name_of)(int), int count, int *out);

// Measures and prints all of the choice in each size of the options. All ranks call it together. ERR_CHECK: an element
// is wrong.
int nccl_rows_run(const struct bench_options *options, const struct nccl_choice *choice);

// SPDX-License-Identifier: Apache-2.0
// Explores the orders in which lanes may run what a rank's thread issued (executor_log.h): every order that the
// executor's dependencies and waits allow, without data, on versions alone. An access expects the versions that the
// order of issue gives: those that the last write before it left. An order in which an operation or the issuing thread
// finds another one, or overwrites one that is still to be read, is a fault of the dependencies, or of a thread that
// does not wait.
//
// Two ways that agree (explore_test.c). The walk visits every set of events that have happened, level by level, and so
// passes every order; only issues, which commute with all else, happen immediately. The proof compares each pair of
// conflicting events with what must precede what: if all are ordered, every order has the same versions.
#pragma once

#include "ref/executor/executor_log.h"

enum { EXPLORE_MESSAGE_BYTES = 512 };

struct explorer;

// The log outlives the explorer.
int explorer_open(const struct executor_log *log, struct explorer **out);
void explorer_close(struct explorer *explorer);  // null-safe

struct explored {
    size_t operation_count, wait_count, touch_count;
    size_t conflict_count;                // pairs of events that access the same bytes, one of them writing
    bool right;                           // no order has a wrong version
    char message[EXPLORE_MESSAGE_BYTES];  // otherwise: who meets whose version
};

// The proof.
int explorer_prove(const struct explorer *explorer, struct explored *out);

// The walk, which ends at the first wrong version, or with *complete false where a level has more than state_limit
// states. orders: how many there are.
struct walked {
    bool right, complete;
    uint64_t state_count;
    double orders;
    char message[EXPLORE_MESSAGE_BYTES];
};
int explorer_walk(const struct explorer *explorer, size_t state_limit, struct walked *out);

// Leaves out each dependency of an operation on a lane, and each wait, in turn: found, if the proof then fails;
// implied, if others require the same; idle: a wait behind which nothing is touched. What is none of these is missed.
struct left_out {
    size_t found, implied, idle, missed;
};
int explorer_leave_out(const struct explorer *explorer, struct left_out *out);

// Tells as text what each operation and wait depends on: a line each, with its number among those that `counts`
// accepts, its name, and the numbers of the operations with which it conflicts. The caller frees *out.
int explorer_dependencies(const struct explorer *explorer, bool (*counts)(const char *name), char **out);

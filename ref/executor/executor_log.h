// SPDX-License-Identifier: Apache-2.0
// What one rank's issuing thread did: the operations that it issued, its waits, and what it touched itself. The log
// schedule runs each operation when it is issued, under the guard of chaos, so that the log is the program's order, and
// holds every access: operations touch what they declare, and the issuing thread's accesses are found page by page.
#pragma once

#include "ref/executor/executor.h"

enum executor_entry_kind { ENTRY_OPERATION, ENTRY_WAIT, ENTRY_TOUCH };

// spans: of an operation; those that a wait is for, none for all operations; the touched part of a page.
struct executor_entry {
    enum executor_entry_kind kind;
    const char *name;  // of the operation; not owned
    enum lane lane;
    struct executor_span *spans;
    const char **memory;  // by span: the name of the allocation in which it begins; null: none of this tier
    size_t span_count;
};

struct executor_log {
    struct executor_entry *entries;
    size_t count, capacity;
};

// Lets an executor of the log schedule keep its log, which begins empty and outlives it; call before the first
// operation.
void executor_keep_log(struct executor *executor, struct executor_log *log);

void executor_log_close(struct executor_log *log);

// SPDX-License-Identifier: Apache-2.0
// What is looked at while somebody's command runs: its processes, their memory, and what it writes.
#ifndef ZG_LAUNCH_WATCH_H
#define ZG_LAUNCH_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    pid_t pid, parent;
    char state;  // as in /proc/PID/stat: 'Z' is a zombie
    uint64_t resident_bytes;
    bool ours;
};

struct process_list {
    struct process *list;
    size_t count, room;
};

// All processes there are. Nothing is marked yet.
int process_scan(struct process_list *out);
void process_list_free(struct process_list *list);

// Marks leader and all that descends from it. Orphans among these have become children of this process, which is their
// subreaper: every child of it that is not in `before` is one.
void process_mark(struct process_list *list, pid_t leader, const struct process_list *before);

// Resident bytes of the marked ones, added up: memory that several of them share counts in each.
uint64_t process_memory(const struct process_list *list);

// What lies below a folder: sizes as the file system shows them (a hole counts), and 512 bytes for every name. Links
// are not followed, nor is another file system entered. UINT64_MAX where folders are nested deeper than 32.
uint64_t folder_weight(const char *path);

#endif

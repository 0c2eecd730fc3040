// SPDX-License-Identifier: Apache-2.0
// Observes a running command: its processes, their memory, and the size of its output.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    pid_t pid, parent, group;
    char state;  // as in /proc/PID/stat: 'Z' is a zombie
    uint64_t resident_bytes;
    uint64_t device_bytes, device_now_bytes;  // on GPUs, at most and when last read (launch_gpus.h)
    bool ours;
};

struct process_list {
    struct process *list;
    size_t count, room;
};

// Lists all processes of the system, unmarked.
int process_scan(struct process_list *out);

// Drops all but the children of this process: the id of a child is not reused before it is reaped; other ids may be.
void process_keep_children(struct process_list *list);

// Lists the children of this process, ended ones included; only `pid` and `parent` are set.
int process_children(struct process_list *out);

struct process *process_find(const struct process_list *list, pid_t pid);  // null if it has none

void process_list_free(struct process_list *list);

// Marks the leader, all processes that are in its group, whoever started them, and all descendants of these. Orphans
// among them have become children of this process, their subreaper: every child of it that is not in `before`, a list
// of its children, is marked.
void process_mark(struct process_list *list, pid_t leader, const struct process_list *before);

// The sum of the resident bytes of the marked processes; shared memory counts in each.
uint64_t process_memory(const struct process_list *list);

// Adds the marked processes to `peaks`, unless they are there. ERR_MEMORY.
int process_peaks_add(struct process_list *peaks, const struct process_list *list);

// Brings `resident_bytes` of each process in `peaks` to the most that was ever resident in it (VmHWM), and returns
// their sum, with what they held on GPUs. An ended one keeps what was last read.
uint64_t process_peaks_read(struct process_list *peaks);

// The most bytes that were ever resident in a process (VmHWM). 0: it is gone, or a zombie.
uint64_t process_peak(pid_t pid);

// Resets this process's peak to what is resident. ERR_IO: the system does not allow it.
int process_peak_restart(void);

// The size of a folder's contents: the apparent sizes of files (holes count) and 512 bytes for every name. Does not
// follow links or enter other file systems. UINT64_MAX if folders are nested deeper than 32.
uint64_t folder_weight(const char *path);
enum { FOLDER_NAME_WEIGHT_BYTES = 512 };

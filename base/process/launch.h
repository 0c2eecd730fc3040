// SPDX-License-Identifier: Apache-2.0
// Runs an untrusted command in its own process group, under limits of time, memory and output, and keeps its output in
// a file. When launch returns, no descendant of the command remains.
#pragma once

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct launch_setting {
    const char *const *argv;     // ended by NULL
    const char *output_path;     // a new file for stdout and stderr
    const char *error_path;      // a new file for stderr, which counts as output, too; null: stderr goes with stdout
    const char *watched_folder;  // its files count as output, too; null: none
    // Of the command; 0: none. With a watched folder, of every pause in which that does not grow, and five times as
    // long before a second name is in it: the first answer waits for imports and compilers.
    double time_limit_s;
    uint64_t memory_limit_bytes;                  // of all its processes; 0: none
    uint64_t output_limit_bytes;                  // of files and folder; 0: none
    bool counts_sent;                             // over TCP; and adds what is held on GPUs to the peaks
    const volatile sig_atomic_t *interrupted;     // may be null; a nonzero value stops the command
    void (*tick)(void *context, double seconds);  // called every now and then while it runs; may be null
    void *tick_context;
};

enum launch_end { LAUNCH_EXITED, LAUNCH_SIGNALLED, LAUNCH_TIME, LAUNCH_MEMORY, LAUNCH_OUTPUT, LAUNCH_INTERRUPTED };

struct launch_result {
    enum launch_end end;
    int status;  // the exit status, or the signal
    double seconds;
    uint64_t peak_memory_bytes;   // the most that was resident in all processes together, as it was sampled
    uint64_t sum_of_peaks_bytes;  // of each process the most that was ever resident in it, by the kernel's count; GPUs
                                  // as NVML samples
    bool sent_is_known;           // the kernel counted what was sent
    uint64_t sent_bytes;          // by all processes over TCP; a lower bound, as it was sampled
    char text[256];               // for messages: "exited with status 3", "timed out after 60 s"
};

// ERR_USAGE: the command cannot be started (not found, not executable). ERR_IO, ERR_MEMORY.
int launch(const struct launch_setting *setting, struct launch_result *out);

// Reads the last lines of an output file for a message, at most `bytes` bytes with the final zero, without the end of
// the last one, and replaces unprintable ones. Returns out.
const char *launch_tail(const char *output_path, char *out, size_t bytes);

// The path of this program, to start it again as a command. ERR_IO: the system does not tell.
int launch_own_path(char out[PATH_MAX]);

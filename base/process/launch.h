// SPDX-License-Identifier: Apache-2.0
// Runs somebody's command: in its own process group, under limits of time, memory and output, with what it prints kept
// in a file; when it ends, or is ended, the whole group is gone.
#ifndef ZG_LAUNCH_H
#define ZG_LAUNCH_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

struct launch_setting {
    const char *const *argv;      // NULL at the end
    const char *output_path;      // a new file: stdout and stderr together
    const char *error_path;       // a new file for stderr apart, which counts as output, too; null: with stdout
    const char *watched_folder;   // what is written below it counts as output, too; null: none
    double time_limit_s;          // 0: none
    uint64_t memory_limit_bytes;  // of all its processes together; 0: none
    uint64_t output_limit_bytes;  // of the file and the folder; 0: none
    const volatile sig_atomic_t *interrupted;     // may be null; when set, the group is ended
    void (*tick)(void *context, double seconds);  // now and then while it runs; may be null
    void *tick_context;
};

enum launch_end { LAUNCH_EXITED, LAUNCH_SIGNALLED, LAUNCH_TIME, LAUNCH_MEMORY, LAUNCH_OUTPUT, LAUNCH_INTERRUPTED };

struct launch_result {
    enum launch_end end;
    int status;  // the exit status, or the signal
    double seconds;
    uint64_t peak_memory_bytes;
    char text[256];  // what happened, for people: "exited with status 3", "was ended after 60 s"
};

// ERR_USAGE: it cannot be started (not found, not executable). ERR_IO, ERR_MEMORY.
int launch(const struct launch_setting *setting, struct launch_result *out);

// The last lines of the file of output, for a message: at most `bytes` of it, printable. Returns out.
const char *launch_tail(const char *output_path, char *out, size_t bytes);

#endif

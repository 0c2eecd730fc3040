// SPDX-License-Identifier: Apache-2.0
// Errors are values up to main: a function returns 0 or one of these codes, and the calling thread's message names the
// error and a remedy.
#pragma once

#include <stdarg.h>

enum { ERR_MESSAGE_BYTES = 2048 };

enum err {
    ERR_NONE = 0,
    ERR_CHECK = 1,     // a check failed
    ERR_USAGE = 2,     // wrong input: command line, configuration, file
    ERR_MEMORY = 3,    // an allocation failed
    ERR_BUDGET = 4,    // an allocation would exceed a tier's budget
    ERR_IO = 5,        // an operation of the operating system failed
    ERR_PEER = 6,      // another rank failed first; the message is its message
    ERR_INTERNAL = 7,  // an invariant of the program is violated
};

// Sets the calling thread's message and returns code, which is not ERR_NONE.
int err_set(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Puts "PREFIX: " before the calling thread's message and returns code unchanged.
int err_prefix(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Empties the calling thread's message.
void err_clear(void);

// Copies the calling thread's message, and sets it again: a clean-up in between must not replace the cause.
void err_keep(char kept[ERR_MESSAGE_BYTES]);
void err_restore(const char kept[ERR_MESSAGE_BYTES]);

// The calling thread's last message; "" if there is none. Valid until the next err_ call of this thread.
const char *err_message(void);

// The exit status for a code: 1 for a failed check, 2 for bad input or a failed run.
int err_exit_status(int code);

// Returns from the enclosing function with the code of a call that failed.
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        int try_code_ = (call);                                                                                        \
        if (try_code_ != ERR_NONE)                                                                                     \
            return try_code_;                                                                                          \
    } while (0)

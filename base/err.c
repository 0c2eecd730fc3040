// SPDX-License-Identifier: Apache-2.0
#include "base/err.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[ERR_MESSAGE_BYTES];

int err_set(int code, const char *format, ...)
{
    // The arguments may point into the message, so the new one is built in another buffer.
    assert(code != ERR_NONE);
    char text[ERR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(message, text, sizeof text);
    return code;
}

void err_clear(void)
{
    message[0] = '\0';
}

void err_keep(char kept[ERR_MESSAGE_BYTES])
{
    memcpy(kept, message, sizeof message);
}

void err_restore(const char kept[ERR_MESSAGE_BYTES])
{
    memcpy(message, kept, sizeof message);
}

int err_prefix(int code, const char *format, ...)
{
    assert(code != ERR_NONE);
    char text[ERR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof text) {
        // Truncates the inner message where it does not fit.
        int room = (int)sizeof text - length;
        snprintf(text + length, (size_t)room, ": %.*s", room, message);
    }
    memcpy(message, text, sizeof text);
    return code;
}

const char *err_message(void)
{
    return message;
}

int err_exit_status(int code)
{
    if (code == ERR_NONE)
        return 0;
    return code == ERR_CHECK ? 1 : 2;
}

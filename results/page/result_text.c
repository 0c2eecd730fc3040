// SPDX-License-Identifier: Apache-2.0
#include "results/page/result_text.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const char *number_text(double value, char out[NUMBER_TEXT_BYTES])
{
    // Uses an exponent only where digits become hard to count.
    double size = fabs(value);
    int digits = size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : size >= 1 ? 3 : 4;
    if (value != 0 && (size >= 1e7 || size < 1e-3))
        snprintf(out, NUMBER_TEXT_BYTES, "%.3e", value);
    else
        snprintf(out, NUMBER_TEXT_BYTES, "%.*f", digits, value);
    if (strchr(out, '.') && !strchr(out, 'e')) {
        size_t end = strlen(out);
        while (out[end - 1] == '0')
            end--;
        out[out[end - 1] == '.' ? end - 1 : end] = '\0';
    }
    return out;
}

const char *bytes_text(double bytes, char out[NUMBER_TEXT_BYTES])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 4; unit++)
        bytes /= 1024;
    snprintf(out, NUMBER_TEXT_BYTES, "%.4g %s", bytes, units[unit]);
    return out;
}

static void setting_text(FILE *out, const char *key, const json_t *value)
{
    static const char suffix[] = "_bytes";
    char number[NUMBER_TEXT_BYTES];
    size_t length = strlen(key), tail = sizeof suffix - 1;
    bool is_bytes = length > tail && strcmp(key + length - tail, suffix) == 0 && json_is_integer(value);
    fprintf(out, "%.*s=", (int)(is_bytes ? length - tail : length), key);
    if (is_bytes)
        fputs(bytes_text(json_number_value(value), number), out);
    else if (json_is_integer(value))
        fprintf(out, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        fputs(number_text(json_real_value(value), number), out);
    else if (json_is_string(value))
        fputs(json_string_value(value), out);
    else
        fputs(json_is_true(value) ? "yes" : json_is_false(value) ? "no" : "none", out);
}

char *settings_text_of(const json_t *settings, const json_t *without, size_t most)
{
    char *text = NULL;
    size_t bytes, count = 0;
    const char *key;
    json_t *value;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return NULL;
    json_object_foreach ((json_t *)(uintptr_t)settings, key, value) {
        if (count == most || json_object_get(without, key))
            continue;
        fputs(count++ ? ", " : "", out);
        setting_text(out, key, value);
    }
    return fclose(out) == 0 ? text : (free(text), NULL);
}

char *settings_text(const json_t *settings)
{
    return settings_text_of(settings, NULL, SIZE_MAX);
}

// SPDX-License-Identifier: Apache-2.0
#include "base/size.h"

#include "base/err.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int size_parse(const char *text, uint64_t *out)
{
    static const char suffixes[] = "KMGT";
    char *end;
    errno = 0;
    unsigned long long value = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
    if (!isdigit((unsigned char)text[0]) || errno != 0)
        return err_set(ERR_USAGE, "\"%s\": expected a size such as 4096, 64K, 16MiB or 2G", text);
    unsigned shift = 0;
    const char *suffix = *end ? strchr(suffixes, toupper((unsigned char)*end)) : NULL;
    if (suffix) {
        shift = 10 * (unsigned)(suffix - suffixes + 1);
        end++;
        if (strcmp(end, "iB") == 0)
            end += 2;
    }
    if (*end || value > UINT64_MAX >> shift)
        return err_set(ERR_USAGE, "\"%s\": expected a size such as 4096, 64K, 16MiB or 2G", text);
    *out = (uint64_t)value << shift;
    return ERR_NONE;
}

const char *size_text(uint64_t value, char out[SIZE_TEXT_BYTES])
{
    char digits[SIZE_TEXT_BYTES];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)value), at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = '\0';
    return out;
}

const char *size_short_text(uint64_t bytes, char out[SIZE_TEXT_BYTES])
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024;
    snprintf(out, SIZE_TEXT_BYTES, "%.4g %s", value, units[unit]);
    return out;
}

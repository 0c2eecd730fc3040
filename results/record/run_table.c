// SPDX-License-Identifier: Apache-2.0
#include "results/record/run_table.h"

#include <string.h>

static const struct run_row rows[] = {
    {NULL, 0, false},    {"adam", 15, false},   {"memory", 15, false},  {"ranks", 25, false},
    {"links", 25, true}, {"comm", 15, false},   {"nvme", 5, false},     {"pcie", 9, false},
    {"swap", 7, false},  {"overlap", 7, false}, {"pipeline", 7, false}, {"step", 7, false},
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };

const struct run_row *run_row_at(size_t index)
{
    return index < ROW_COUNT ? &rows[index] : NULL;
}

const struct run_row *run_row_of(const char *part)
{
    if (strcmp(part, "arithmetic") == 0)
        return &rows[0];
    if (strncmp(part, "bench-", 6) != 0)
        return NULL;
    size_t length = strcspn(part + 6, "-");
    for (size_t i = 1; i < ROW_COUNT; i++)
        if (strlen(rows[i].bench) == length && strncmp(rows[i].bench, part + 6, length) == 0)
            return &rows[i];
    return NULL;
}

bool run_option_is_known(const char *option, bool quick)
{
    if (strcmp(option, "--budget") == 0)
        return quick;
    static const char *const known[] = {"--json",  "--level", "--quick",  "--device", "--nvme-path", "--emulate",
                                        "--world", "--pin",   "--engine", "--text",   "--model",     "--sequences"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(option, known[i]) == 0)
            return true;
    return false;
}

// SPDX-License-Identifier: Apache-2.0
// A plug-in for the tests of the host, with something wrong with its table: what the variable PLUGIN_BROKEN names.
#include "conformance/contract/contract.h"

#include <stdlib.h>
#include <string.h>

static int do_nothing(void *context, int32_t step, struct zerogauge_outcome *out)
{
    (void)context, (void)step, (void)out;
    return ZEROGAUGE_FAILED;
}

static int open_nothing(const struct zerogauge_case *c, const float *const initial[], void **context)
{
    (void)c, (void)initial, (void)context;
    return ZEROGAUGE_FAILED;
}

static int take_nothing(void *context, int32_t step, int32_t micro, int32_t rank, const void *const gradients[],
                        void *const seen[])
{
    (void)context, (void)step, (void)micro, (void)rank, (void)gradients, (void)seen;
    return ZEROGAUGE_FAILED;
}

static int read_nothing(void *context, int32_t state, int32_t param, float *out)
{
    (void)context, (void)state, (void)param, (void)out;
    return ZEROGAUGE_FAILED;
}

static int save_nothing(void *context, const char *folder)
{
    (void)context, (void)folder;
    return ZEROGAUGE_FAILED;
}

static void close_nothing(void *context)
{
    (void)context;
}

const struct zerogauge_implementation *zerogauge_implementation(void)
{
    static struct zerogauge_implementation table;
    const char *what = getenv("PLUGIN_BROKEN");
    table = (struct zerogauge_implementation){.contract = ZEROGAUGE_CONTRACT,
                                              .struct_bytes = sizeof table,
                                              .name = "broken",
                                              .version = "1",
                                              .open = open_nothing,
                                              .gradients = take_nothing,
                                              .step = do_nothing,
                                              .read = read_nothing,
                                              .close = close_nothing};
    if (!what)
        return &table;
    if (strcmp(what, "table") == 0)
        return NULL;
    if (strcmp(what, "contract") == 0)
        table.contract = ZEROGAUGE_CONTRACT + 1;
    if (strcmp(what, "size") == 0)
        table.struct_bytes -= 8;
    if (strcmp(what, "step") == 0)
        table.step = NULL;
    if (strcmp(what, "version") == 0)
        table.version = NULL;
    if (strcmp(what, "save") == 0)
        table.save = save_nothing;
    return &table;
}

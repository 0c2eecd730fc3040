// SPDX-License-Identifier: Apache-2.0
// Test support: results in the form that benchmarks print, and commands that print them.
#pragma once

#include "base/folder_test.h"
#include "validate/validate.h"

// A record of three samples around `median` GB/s with a baseline of 4 GB/s. `of_case` is the inside of an object.
static inline const char *trial_line(const char *name, const char *of_case, double median)
{
    static char line[1024];
    snprintf(line, sizeof line,
             "{\"record\":\"bench\",\"name\":\"%s\",\"case\":{%s},\"samples\":[%.9g,%.9g,%.9g],\"median\":%.9g,"
             "\"p10\":%.9g,\"p90\":%.9g,\"unit\":\"GB/s\",\"lower_is_better\":false,\"items\":1000000,\"elapsed_s\":1,"
             "\"verified\":true,\"yardstick\":{\"name\":\"fio\",\"samples\":[4,4,4],\"median\":4,\"p10\":4,\"p90\":4,"
             "\"unit\":\"GB/s\",\"items\":1000000},\"ratio\":%.9g}",
             name, of_case, median, median * 0.9, median * 1.1, median, median * 0.92, median * 1.08, median / 4);
    return line;
}

static inline json_t *trial_record(const char *name, const char *of_case, double median)
{
    json_t *record = json_loads(trial_line(name, of_case, median), 0, NULL);
    cr_assert_not_null(record, "%s", of_case);
    return record;
}

// A part that runs a shell script. The script must outlive it.
static inline struct validate_part trial_part(const char *name, const char *bench, const char *script)
{
    struct validate_part part = {
        .bench = bench, .argv = {"/bin/sh", "-c", script, NULL}, .expected_s = 1, .limit_s = 20};
    snprintf(part.name, sizeof part.name, "%s", name);
    return part;
}

// The setting of a trial in this folder.
static inline struct validate_setting trial_setting(const char *folder, struct validate_plan *plan,
                                                    const struct accepted_ranges *ranges)
{
    static const char *const argv[] = {"zerogauge", "validate", "--quick"}, *const paths[] = {NULL};
    return (struct validate_setting){.folder = folder,
                                     .program = "trial",
                                     .level = "quick",
                                     .argc = 3,
                                     .argv = argv,
                                     .paths = paths,
                                     .plan = plan,
                                     .ranges = ranges};
}

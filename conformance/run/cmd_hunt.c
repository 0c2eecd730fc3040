// SPDX-License-Identifier: Apache-2.0
// `zerogauge check --hunt`.
#include "conformance/run/cmd_check.h"

#include "base/err.h"
#include "base/file.h"
#include "base/process/check_folder.h"
#include "conformance/run/check_hunt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The library whose adapter a command starts, by its words.
static const char *upstream_of(const char *const *command)
{
    static const char *const libraries[] = {"deepspeed", "torch"};
    for (size_t k = 0; k < sizeof libraries / sizeof *libraries; k++)
        for (int i = 0; command[i]; i++) {
            const char *base = strrchr(command[i], '/');
            // A launcher's name is not the adapter's.
            if (strstr(base ? base : command[i], libraries[k]) && !strstr(command[i], "torchrun"))
                return libraries[k];
        }
    return NULL;
}

int check_hunt_and_report(const struct check_options *a, const struct check_setting *setting, const char *line,
                          const char *const *reference, int *status)
{
    char folder[PATH_MAX], work[PATH_MAX];
    TRY(check_folder_new("--out", a->out, folder));
    TRY(check_folder_temporary(work));
    struct check_hunt hunt = {.setting = *setting,
                              .minutes = a->hunt_minutes,
                              .find_max = a->find_max,
                              .folder = folder,
                              .work = work,
                              .reference = reference,
                              .command = line,
                              .upstream = upstream_of(setting->command)};
    if (!a->limits_time)
        hunt.setting.time_limit_s = HUNT_TIME_LIMIT_S;
    struct check_hunt_result result;
    int rc = check_hunt(&hunt, &result);
    check_folder_remove(work);
    TRY(rc);
    printf("%s%d found: %" PRIu64 " cases of seed %lld judged in %zu launches, %.1f s. Record: %s/hunt.jsonl\n",
           result.find_count ? "" : "Nothing wrong was found. ", result.find_count, result.judged_count, a->seed,
           result.launch_count, result.seconds, a->out);
    *status = result.find_count > 0 ? 1 : result.judged_count > 0 ? 0 : 77;
    return file_flush(stdout, "the report");
}

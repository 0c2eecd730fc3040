// SPDX-License-Identifier: Apache-2.0
#include "results/record/record.h"

#include "base/build.h"
#include "info/info_cuda.h"
#include "base/safe_text.h"

#include <time.h>

json_t *record_run(const char *program, const char *level, int argc, const char *const *argv, const char *const *paths)
{
    char started[32];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &utc);
    json_t *command = json_array();
    for (int i = 0; i < argc; i++)
        json_array_append_new(command, text_json(argv[i]));
    return json_pack("{s:s, s:i, s:s, s:o, s:o, s:s, s:o, s:o}", "record", "run", "schema", 1, "program", program,
                     "level", level ? json_string(level) : json_null(), "command", command, "started", started, "suite",
                     build_facts(), "machine", info_machine(paths));
}

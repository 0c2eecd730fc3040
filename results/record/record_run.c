// SPDX-License-Identifier: Apache-2.0
#include "results/record/record.h"

#include "base/build.h"
#include "cli/info/info_cuda.h"
#include "cli/info/info_openblas.h"
#include "base/safe_text.h"

#include <time.h>

// The program, and a reason why it is slow on this machine.
static json_t *suite_json(void)
{
    json_t *suite = build_facts(), *openblas = info_openblas(), *warning = json_object_get(openblas, "warning");
    if (json_is_string(warning))
        json_object_set(suite, "openblas_warning", warning);
    json_decref(openblas);
    return suite;
}

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
                     suite_json(), "machine", info_machine(paths));
}

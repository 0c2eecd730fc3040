// SPDX-License-Identifier: Apache-2.0
// What RULES.md asks of a run that is ranked, beyond that its file verifies and its verdict is VALID.
#include "results/record/record_verify.h"

#include <stdio.h>
#include <string.h>

static const double OTHER_LOAD_MOST = 0.05;

struct reasons {
    char *text;
    size_t used;
};

static void add(struct reasons *reasons, const char *text)
{
    if (reasons->used < UNRANKED_TEXT_BYTES)
        reasons->used += (size_t)snprintf(reasons->text + reasons->used, UNRANKED_TEXT_BYTES - reasons->used, "%s%s",
                                          reasons->used > 0 ? ", " : "", text);
}

void record_unranked(const struct result_file *file, char out[UNRANKED_TEXT_BYTES])
{
    struct reasons reasons = {.text = out};
    const char *level = json_string_value(json_object_get(file->run, "level"));
    const json_t *load = json_object_get(file->end, "other_load");
    char text[64];
    *out = '\0';
    if (strcmp(json_string_value(json_object_get(file->run, "program")), "validate") != 0)
        add(&reasons, "it is no run of validate");
    if (!level || strcmp(level, "full") != 0)
        add(&reasons, "its level is not full");
    if (json_is_true(json_object_get(json_object_get(file->run, "suite"), "dirty")))
        add(&reasons, "its sources are changed");
    if (!json_is_number(load)) {
        add(&reasons, "the load of other programs is unknown");
    } else if (json_number_value(load) > OTHER_LOAD_MOST) {
        snprintf(text, sizeof text, "other programs used %.0f %% of the processors", 100 * json_number_value(load));
        add(&reasons, text);
    }
}

// SPDX-License-Identifier: Apache-2.0
// Any text as the YAML of Accelerate or a trainer: it is refused with a message, or its keys are DeepSpeed's.
#include "ref/config/config.h"
#include "ref/config/config_doc.h"
#include "ref/config/config_presets.h"
#include "base/err.h"

#include <stdlib.h>

const struct config_preset config_presets[] = {{0}};

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static struct config_notes notes;
    const struct config_options options = {.world = 8, .plans = size % 2};
    json_t *json = NULL;
    notes = (struct config_notes){0};
    if (config_read_foreign("fuzz", (const char *)data, size, &options, &notes, &json) != ERR_NONE) {
        if (err_message()[0] == '\0')
            abort();
        return 0;
    }
    if (!json_is_object(json))
        abort();
    json_decref(json);
    return 0;
}

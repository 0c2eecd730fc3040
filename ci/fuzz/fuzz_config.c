// SPDX-License-Identifier: Apache-2.0
// Any text as a configuration: it is refused with a message, or what is printed of it loads again to the same.
#include "ref/config/config.h"
#include "ref/config/config_presets.h"
#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct config_preset config_presets[] = {{0}};

static char *printed(const struct config *config, size_t *bytes)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, bytes);
    config_print(config, out);
    fclose(out);
    return text;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static struct config config, again;
    static struct config_notes notes;
    static const char *const paths[] = {"/nvme"};
    const struct config_options options = {.world = 2, .steps = 10, .nvme_paths = paths, .nvme_path_count = 1};
    if (config_load_text("fuzz", (const char *)data, size, &options, &config, &notes) != ERR_NONE) {
        if (err_message()[0] == '\0')
            abort();
        return 0;
    }
    size_t bytes, bytes_again;
    char *text = printed(&config, &bytes);
    if (config_load_text("printed", text, bytes, &options, &again, NULL) != ERR_NONE) {
        fprintf(stderr, "%s\n%s\n", err_message(), text);
        abort();
    }
    char *text_again = printed(&again, &bytes_again);
    if (bytes != bytes_again || memcmp(text, text_again, bytes) != 0)
        abort();
    free(text);
    free(text_again);
    return 0;
}

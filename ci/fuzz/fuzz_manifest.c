// SPDX-License-Identifier: Apache-2.0
// Any bytes as a checkpoint's manifest, as they are and with their digest put right: it is refused with a message, or
// written again it says the same.
#include "base/err.h"
#include "ref/checkpoint/manifest.h"

#include <stdlib.h>
#include <string.h>

static void parse(const char *text, size_t bytes)
{
    struct manifest manifest, again;
    int rc = manifest_parse("fuzz", text, bytes, &manifest);
    if (rc != ERR_NONE && strncmp(err_message(), "fuzz:", 5) != 0)
        abort();
    if (rc == ERR_NONE) {
        char *written, *rewritten;
        if (manifest_text(&manifest, &written) != ERR_NONE ||
            manifest_parse("again", written, strlen(written), &again) != ERR_NONE ||
            manifest_text(&again, &rewritten) != ERR_NONE || strcmp(written, rewritten) != 0)
            abort();
        manifest_close(&again);
        free(written);
        free(rewritten);
    }
    manifest_close(&manifest);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    parse((const char *)data, size);
    json_t *root = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(root) && manifest_seal(root) == ERR_NONE) {
        char *text = json_dumps(root, JSON_COMPACT);
        if (text)
            parse(text, strlen(text));
        free(text);
    }
    json_decref(root);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Any bytes as a safetensors file: it is refused with a message, or its tensors are the data, once and in order.
#include "base/err.h"
#include "ref/checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct safetensors file;
    uint64_t length;
    if (size < sizeof length)
        return 0;
    memcpy(&length, data, sizeof length);
    if (length > size - sizeof length)
        return 0;
    // A copy of just its size, so that reading behind it is seen.
    char *header = malloc(length + 1);
    memcpy(header, data + sizeof length, length);
    int rc = safetensors_parse("fuzz", header, length, size - sizeof length - length, &file);
    free(header);
    if (rc != ERR_NONE) {
        if (strncmp(err_message(), "fuzz: ", 6) != 0)
            abort();
        return 0;
    }
    uint64_t at = 0;
    for (size_t i = 0; i < file.tensor_count; i++) {
        const struct safetensors_tensor *tensor = &file.tensors[i];
        if (tensor->begin != at || safetensors_find(&file, tensor->name) != tensor)
            abort();
        at += tensor->count * safetensors_type_bytes(tensor->type);
    }
    if (at != file.data_bytes)
        abort();
    safetensors_metadata(&file, "format");
    safetensors_close(&file);
    return 0;
}

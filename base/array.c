// SPDX-License-Identifier: Apache-2.0
#include "base/array.h"

#include "base/err.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int array_grow(void *array, size_t *room, size_t count, size_t element_bytes, const char *what)
{
    if (count < *room)
        return ERR_NONE;
    size_t more = *room ? 2 * *room : 64;
    void *list;
    memcpy(&list, array, sizeof list);
    list = more <= PTRDIFF_MAX / element_bytes ? realloc(list, more * element_bytes) : NULL;
    if (!list)
        return err_set(ERR_MEMORY, "no memory for %zu %s", more, what);
    memcpy(array, &list, sizeof list);
    *room = more;
    return ERR_NONE;
}

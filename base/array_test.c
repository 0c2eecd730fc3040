// SPDX-License-Identifier: Apache-2.0
#include "base/array.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

Test(array, grows_one_element_at_a_time_and_keeps_what_it_holds)
{
    uint32_t *list = NULL;
    size_t room = 0, moved = 0;
    for (size_t count = 0; count < 1000; count++) {
        size_t before = room;
        cr_assert_eq(array_grow(&list, &room, count, sizeof *list, "numbers"), ERR_NONE);
        cr_assert_gt(room, count);
        moved += room != before;
        list[count] = (uint32_t)count * 7;
    }
    for (size_t i = 0; i < 1000; i++)
        cr_assert_eq(list[i], i * 7);
    cr_assert_eq(moved, 5, "64, 128, 256, 512, 1024");
    free(list);
}

Test(array, more_than_memory_has_is_an_error_that_names_it_and_loses_nothing)
{
    char *list = NULL;
    size_t room = 0;
    cr_assert_eq(array_grow(&list, &room, 0, 1, "letters"), ERR_NONE);
    list[0] = 'a';
    size_t huge = SIZE_MAX / 4;
    cr_assert_eq(array_grow(&list, &huge, huge, 16, "letters"), ERR_MEMORY);
    cr_assert(strstr(err_message(), "no memory for ") && strstr(err_message(), " letters"), "%s", err_message());
    cr_assert_eq(huge, SIZE_MAX / 4);
    cr_assert_eq(list[0], 'a');
    free(list);
}

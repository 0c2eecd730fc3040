// SPDX-License-Identifier: Apache-2.0
// `bench product`: each case is verified and described, and what it does not know is refused.
#include "base/command_test.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static void expect_words(const char *options, int status, const char *const words[])
{
    static char output[1 << 15];
    char command[512];
    snprintf(command, sizeof command, "'" ZG_BINARY_DIR "/zerogauge' bench product --repeat 1 %s 2>&1", options);
    int found = command_run(command, output, sizeof output);
    cr_expect_eq(found, status, "%s: status %d: %s", options, found, output);
    for (size_t i = 0; words[i]; i++)
        cr_expect(strstr(output, words[i]), "%s: no %s in %s", options, words[i], output);
}

Test(bench_product, a_shape_with_transposed_operands_is_measured_and_described)
{
    expect_words(
        "--shape 7x5x3,ab --threads 2 --dtype bf16 --json", 0,
        (const char *const[]){"\"m\":7,\"n\":5,\"k\":3,\"transposed\":\"both\",\"dtype\":\"bf16\",\"by\":\"chains\"",
                              "\"threads\":2", "\"verified\":true", "\"name\":\"registers\"", NULL});
}

// Registers work for a time, and not for as many operations as the product has.
Test(bench_product, the_items_of_a_sample_are_what_it_worked_for)
{
    static char output[1 << 15];
    cr_assert_eq(command_run("'" ZG_BINARY_DIR
                             "/zerogauge' bench product --repeat 1 --shape 64x64x64 --threads 1 --json"
                             " 2>/dev/null",
                             output, sizeof output),
                 0, "%s", output);
    json_t *record = json_loads(output, JSON_DISABLE_EOF_CHECK, NULL), *samples = NULL;
    double items = 0, rate;
    cr_assert_eq(json_unpack(record, "{s:{s:F, s:o}}", "yardstick", "items", &items, "samples", &samples), 0, "%s",
                 output);
    rate = json_number_value(json_array_get(samples, 0));
    cr_expect_float_eq(items / rate, 1e7, 1e2, "%g operations at %g GFLOP/s", items, rate);
    json_decref(record);
}

Test(bench_product, a_models_products_are_those_of_its_layers_forward_and_backward)
{
    expect_words(
        "--model gpt-nano --threads 1 --json", 0,
        (const char *const[]){"\"transposed\":\"none\"", "\"transposed\":\"a\"", "\"transposed\":\"b\"", NULL});
}

Test(bench_product, what_it_does_not_know_is_refused_with_what_it_expects)
{
    expect_words("--shape 7x5", 2, (const char *const[]){"--shape \"7x5\": expected MxNxK", NULL});
    expect_words("--shape 7x0x5", 2, (const char *const[]){"--shape \"7x0x5\": expected MxNxK", NULL});
    expect_words("--shape 7x5x3,c", 2, (const char *const[]){"expected MxNxK", NULL});
    expect_words("--model linear", 2, (const char *const[]){"its matrix products are unknown", NULL});
    expect_words("--shape 7x5x3 --dtype int8", 2, (const char *const[]){"expected fp32, bf16 or fp16", NULL});
    expect_words("--shape 7x5x3 --products bf16", 2, (const char *const[]){"give --dtype bf16", NULL});
    expect_words("--model gpt-nano --shape 7x5x3", 2, (const char *const[]){"give one of them", NULL});
}

// SPDX-License-Identifier: Apache-2.0
// `zerogauge check --observe` of a program that shards its states, and of one that says so and does not.
#include "conformance/run/check_test.h"

#include <jansson.h>

TestSuite(check_observe, .init = check_setup, .fini = check_teardown);

// Observes a command, or the reference, and judges one case; the exit status.
static int observe(const char *options)
{
    write_text("claims.json", "{\"contract\": 1, \"name\": \"n\", \"version\": \"1\", \"worlds\": [2, 4], "
                              "\"stages\": [0, 3], \"precisions\": [\"fp32\", \"bf16\"]}");
    return check("--case adam-basic.w2.s3.fp32 --observe --claims claims.json %s", options);
}

Test(check_observe, sharded_states_show_in_memory)
{
    json_error_t error;
    cr_assert_eq(observe("--out out"), 0, "%s", output);
    has("  observed: stage 3, 4 ranks: ");
    has(" MiB a rank less than stage 0 (formula 48 MiB)\n");
    lacks("no evidence");
    json_t *record = json_load_file(in_folder("out/report.jsonl"), JSON_DISABLE_EOF_CHECK, &error);
    cr_assert_not_null(record, "%s", error.text);
    const json_t *list = json_object_get(record, "observations"), *stage = json_array_get(list, 0);
    cr_assert_eq(json_array_size(list), 1);
    cr_assert_eq(json_integer_value(json_object_get(stage, "stage")), 3);
    cr_assert_eq(json_integer_value(json_object_get(stage, "formula_saved_bytes")), 192 << 20);
    cr_assert(json_is_true(json_object_get(stage, "shows_sharding")));
    json_decref(record);
    // The cases and answers of several hundred megabytes are gone, what the program printed is kept.
    cr_assert_not(is_in_folder("out/observe/adam-basic.large.w4.s3.bf16/answers"));
    cr_assert(is_in_folder("out/observe/adam-basic.large.w4.s3.bf16/output/w4.txt"));
}

// It answers every case as the reference does at stage 0, and does not report what it holds.
Test(check_observe, states_that_are_whole_on_every_rank_are_no_evidence)
{
    write_text("unsharded", "#!/bin/sh\n"
                            "for name in $(tr -d '[]\",' <$1/order.json); do\n"
                            "  rm -rf $0.case; mkdir $0.case; cp -r $1/$name $0.case/$name\n"
                            "  sed -i 's/\"stage\": *[0-3]/\"stage\": 0/' $0.case/$name/case.json\n"
                            "  \"" ZG_BINARY_DIR "/zerogauge\" answer --case $0.case/$name $2/$name || exit 1\n"
                            "  rm $2/$name/usage.json\n"
                            "done\n");
    cr_assert_eq(observe("-- ./unsharded {cases} {answers}"), 0, "%s", output);
    has("  observed: stage 3, 4 ranks: ");
    has(" (formula 48 MiB): no evidence that states are sharded\n");
    has("; no evidence that states are sharded):");
}

Test(check_observe, a_command_that_fails_is_no_measurement)
{
    cr_assert_eq(observe("-- sh -c 'echo no such luck; exit 3' {cases} {answers}"), 1, "%s", output);
    has("  observed: stage 3, 4 ranks: not observed: there is no stage 0 to compare with: the answer is BROKEN: the "
        "command exited with status 3: no such luck");
}

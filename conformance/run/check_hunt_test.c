// SPDX-License-Identifier: Apache-2.0
// The hunt as a user meets it: it finds nothing in a right program, and shrinks what it finds in wrong ones, which are
// mutants of ref/one_file/zero.c, built here as plug-ins.
#include "conformance/cases/schema_valid_test.h"
#include "conformance/run/check_test.h"

TestSuite(check_hunt, .init = check_setup, .fini = check_teardown);

// Builds a mutant as zero.so.
static void build_mutant(const char *name)
{
    cr_assert_eq(run("mkdir -p ref/one_file && cp " ZG_SOURCE_DIR "/ref/one_file/zero*.c ref/one_file && " ZG_SOURCE_DIR
                     "/ci/mutant one_file/%s >patch && patch -s -p1 -F0 <patch && cc -O1 -std=gnu17 "
                     "-ffp-contract=off -shared -fPIC -I " ZG_SOURCE_DIR
                     "/conformance/contract ref/one_file/zero_plugin.c -o zero.so -lpthread -lm",
                     name),
                 0, "%s", output);
}

static json_t *found_case(void)
{
    cr_assert_eq(run("cat out/find-1/*/case.json | sed '/^}/q'"), 0);
    json_t *c = json_loads(output, 0, NULL);
    cr_assert_not_null(c, "%s", output);
    return c;
}

static int number(const json_t *c, const char *key)
{
    return (int)json_integer_value(json_object_get(c, key));
}

// The hunt's record has this many finds and an end, as its schema describes them.
static void record_is_valid(int find_count)
{
    char line[1 << 14];
    const char *last = "";
    int finds = 0;
    json_t *schema = schema_load("hunt.schema.json"), *record = NULL;
    FILE *file = fopen(in_folder("out/hunt.jsonl"), "r");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file)) {
        json_decref(record);
        record = json_loads(line, 0, NULL);
        cr_assert(record && schema_takes(schema, schema, record), "%s", line);
        last = json_string_value(json_object_get(record, "record"));
        finds += strcmp(last, "find") == 0;
    }
    cr_assert_eq(finds, find_count);
    cr_assert_str_eq(last, "end");
    // A key that is missing is noticed.
    json_object_del(record, "launches");
    cr_assert_not(schema_takes(schema, schema, record));
    json_decref(record);
    json_decref(schema);
    fclose(file);
}

// The mutant is found, the case is small, fails again, and is answered right by the reference.
static void is_found_and_shrunk(const char *name)
{
    build_mutant(name);
    cr_assert_eq(check("--hunt 20 --finds 1 --seed 1 --out out --plugin ./zero.so"), 1, "%s", output);
    has("FIND 1: ");
    has("the reference answers this case right");
    record_is_valid(1);
    json_t *c = found_case();
    cr_assert_leq(number(c, "world"), 2, "%s: %d ranks", name, number(c, "world"));
    cr_assert_leq(number(c, "steps"), 2, "%s: %d steps", name, number(c, "steps"));
    cr_assert_leq(json_array_size(json_object_get(c, "params")), 3);
    json_decref(c);
    cr_assert_eq(check("--case-dir out/find-1 --plugin ./zero.so"), 1, "%s", output);
    has("pair-hunt");
    cr_assert_eq(check("--case-dir out/find-1"), 0, "%s", output);
}

Test(check_hunt, a_sum_in_place_of_the_mean_is_found_and_shrunk)
{
    is_found_and_shrunk("reduce-sum");
}

Test(check_hunt, a_learning_rate_of_another_step_is_found_and_shrunk)
{
    is_found_and_shrunk("lr-of-first-step");
}

Test(check_hunt, an_optimizer_that_counts_skipped_steps_is_found_and_shrunk)
{
    is_found_and_shrunk("skipped-step-counts");
}

Test(check_hunt, parameters_that_are_not_published_are_found_and_shrunk)
{
    is_found_and_shrunk("publish-forgotten");
}

Test(check_hunt, a_right_program_has_nothing_to_find)
{
    cr_assert_eq(check("--hunt 0.02 --out out"), 0, "%s", output);
    has("Nothing wrong was found");
    cr_assert_eq(run("grep -c '\"record\":\"end\"' out/hunt.jsonl"), 0);
}

Test(check_hunt, a_seed_replays_a_hunt)
{
    char first[1 << 12];
    build_mutant("reduce-sum");
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(check("--hunt 20 --finds 1 --seed 5 --out %d --plugin ./zero.so", i), 1);
        cr_assert_eq(run("cat %d/find-1/*/case.json; cat %d/find-1/*/*.safetensors | md5sum", i, i), 0);
        if (i == 0)
            snprintf(first, sizeof first, "%.4000s", output);
    }
    cr_assert_eq(strncmp(output, first, 4000), 0, "%s", output);
}

// Something is found in a program that this shell script is.
static void hunt_script(const char *name, const char *script, const char *mode)
{
    write_text(name, script);
    cr_assert_eq(check("--hunt 20 --finds 1 --out out -- sh %s {cases} {answers} {world} {state} %s", name, mode), 1,
                 "%s", output);
}

// A program that dies of a tied parameter, whatever else a case has.
Test(check_hunt, a_crash_is_shrunk_to_what_crashes)
{
    static const char script[] = "#!/bin/sh\ngrep -q 'tied_to\": \"' $1/*/case.json && { echo no ties >&2; exit 3; }\n"
                                 "exec " ZG_BINARY_DIR "/zerogauge answer $1 $2 $3 $4\n";
    hunt_script("program", script, "");
    has("answer is BROKEN");
    json_t *c = found_case();
    cr_assert_eq(json_array_size(json_object_get(c, "params")), 2);
    cr_assert_eq(number(c, "world"), 1);
    cr_assert_eq(number(c, "steps"), 1);
    json_decref(c);
}

// A program whose second step is the first one again: at first only where it has many cases, later always.
Test(check_hunt, what_fails_beside_others_is_kept_and_the_hunt_goes_on_for_what_fails_alone)
{
    static const char script[] = "#!/bin/sh\n" ZG_BINARY_DIR "/zerogauge answer $1 $2 $3 $4 || exit\n"
                                 "log=$(dirname $0)/launches\necho >>$log\n"
                                 "[ $(ls $1 | wc -l) -gt 4 ] || [ $(wc -l <$log) -gt 30 ] || exit 0\n"
                                 "for d in $2/*; do\n"
                                 "[ ! -f $d/step-2.safetensors ] || cp $d/step-1.safetensors $d/step-2.safetensors\n"
                                 "done\n";
    hunt_script("program", script, "");
    has("FIND 1: ");
    has("it fails with others, but not alone; kept are");
    has("  shrunk  from ");
}

// The adapter's name in the command says whose script a find gets.
static void has_script(const char *name, const char *mode, const char *words)
{
    hunt_script(name,
                "grep -q 'stage\": [123]' $1/*/case.json && exit 3\nexec " ZG_BINARY_DIR
                "/zerogauge answer $1 $2 $3 $4\n",
                mode);
    cr_assert_eq(run("cat out/find-1/report.py"), 0);
    has(words);
    has("INIT = {\"t0\": [0.0]}\n");
    has("GRADS = [[[{\"t0\": [0.0]}]]]");
    has("\"betas\": (0.9, 0.999), \"eps\": 1e-08, ");
    int lines = 0;
    for (const char *at = output; (at = strchr(at, '\n')); at++)
        lines++;
    cr_assert_leq(lines, 40, "%s", output);
    if (run("command -v python3") == 0)
        cr_assert_eq(run("python3 -c \"compile(open('out/find-1/report.py').read(), 'report.py', 'exec')\""), 0, "%s",
                     output);
}

Test(check_hunt, a_find_in_deepspeed_has_a_script_for_a_report)
{
    has_script("deepspeed_zero", "", "\"zero_optimization\": {\"stage\": 1,");
}

Test(check_hunt, a_find_in_pytorch_has_a_script_for_a_report)
{
    has_script("torch_ddp_fsdp", "--mode fsdp2", "fully_shard(model)");
}

Test(check_hunt, an_interrupt_ends_it_with_a_record)
{
    cr_assert_eq(run(ZG_BINARY_DIR "/zerogauge check --hunt 20 --out out >printed & "
                                   "until [ -e out/hunt.jsonl ] || ! kill -0 $!; do sleep 0.02; done; kill -INT $!; "
                                   "wait $!; grep -c '\"record\":\"end\"' out/hunt.jsonl"),
                 0, "%s", output);
}

Test(check_hunt, what_is_wrong_on_the_command_line_is_said)
{
    static const struct {
        const char *arguments, *says;
    } rows[] = {
        {"--hunt 1", "give --out DIR"},
        {"--hunt 0 --out a", "expected minutes, more than 0"},
        {"--hunt 1 --case 'a*' --out a", "--hunt draws its own cases"},
        {"--hunt 1 --strict --out a", "--json, --strict or --observe"},
        {"--finds 1", "--hunt MINUTES"},
        {"--case-dir none", "is no folder"},
        {"--case-dir . --requirement R-OPT-01", "--case-dir gives the cases"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert_eq(check("%s", rows[i].arguments), 2, "%s", rows[i].arguments);
        has(rows[i].says);
    }
}

// Copies a case of the suite to own/NAME.
static void copy_case(const char *name, const char *as)
{
    cr_assert_eq(
        run("mkdir -p own && { test -d cases || " ZG_BINARY_DIR
            "/zerogauge check --write-cases cases --case 'adam-basic.w2.s1.fp32'; } && cp -r cases/%s own/%s && "
            "sed -i 's/\"%s\"/\"%s\"/' own/%s/case.json",
            name, as, name, as, as),
        0, "%s", output);
}

Test(check_hunt, a_case_of_a_folder_is_asked_for_by_its_own_name)
{
    static const char known[] = "adam-basic.w2.s1.fp32";
    copy_case(known, "mine");
    cr_assert_eq(check("--case-dir own/mine"), 0, "%s", output);
    has("CONFORMS (only a folder's own cases were run)");
    cr_assert_eq(check("--case-dir own/mine --case mine"), 0, "%s", output);
    cr_assert_eq(check("--case-dir own/mine --case pair-own.mine"), 0, "%s", output);
    cr_assert_eq(check("--case-dir own/mine --case own"), 2);
    has("no case is called \"own\"");
    copy_case(known, "mine~2");
    cr_assert_eq(check("--case-dir own/mine~2 --strict"), 0, "%s", output);
    copy_case(known, "pair-own.mine");
    write_text("own/order.json", "[\"mine\", \"pair-own.mine\"]");
    cr_assert_eq(check("--case-dir own"), 2, "%s", output);
    has("two cases are called pair-own.mine");
}

Test(check_hunt, claims_that_no_case_meets_are_an_error)
{
    write_text("claims.json", "{\"contract\": 1, \"name\": \"n\", \"version\": \"1\", \"worlds\": [64]}");
    cr_assert_eq(check("--hunt 20 --claims claims.json --out out"), 2, "%s", output);
    has("is within the claims");
}

// SPDX-License-Identifier: Apache-2.0
// `zerogauge check` as a user meets it: what it says of programs that answer well, badly, or not at all.
#include "conformance/run/check.h"
#include "base/command_test.h"
#include "base/err.h"
#include "base/folder_test.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char output[1 << 18];

// The exit status of `zerogauge check ARGUMENTS`; what it prints is left in output.
static int check(const char *arguments)
{
    char command[4 * PATH_MAX];
    snprintf(command, sizeof command, "%s/zerogauge check %s 2>&1", ZG_BINARY_DIR, arguments);
    return command_run(command, output, sizeof output);
}

static void has(const char *text)
{
    cr_assert_not_null(strstr(output, text), "no \"%s\" in: %s", text, output);
}

// The record of one requirement in the JSON lines; the caller frees it.
static char *verdict_in_output(const char *id)
{
    char *copy = strdup(output), *rest = copy, *verdict = NULL;
    for (char *line; (line = strsep(&rest, "\n")) && !verdict;) {
        json_t *record = json_loads(line, 0, NULL);
        const char *kind = json_string_value(json_object_get(record, "record"));
        const char *requirement = json_string_value(json_object_get(record, "id"));
        if (kind && requirement && strcmp(kind, "requirement") == 0 && strcmp(requirement, id) == 0)
            verdict = strdup(json_string_value(json_object_get(record, "verdict")));
        json_decref(record);
    }
    free(copy);
    return verdict;
}

static void requirement_is(const char *id, const char *expected)
{
    char *verdict = verdict_in_output(id);
    cr_assert_not_null(verdict, "%s: %s", id, output);
    cr_assert_str_eq(verdict, expected, "%s: %s", id, output);
    free(verdict);
}

Test(check, the_reference_fulfils_a_requirement_through_the_same_door)
{
    cr_assert_eq(check("--requirement R-OPT-05 --json"), 0, "%s", output);
    requirement_is("R-OPT-05", "PASS");
}

// Six ranks as two hosts of three have other bits than the canonical order, which a rule explains.
Test(check, sums_by_groups_of_ranks_are_equivalent)
{
    cr_assert_eq(check("--case 'red-rounding.w6.*' --json -- " ZG_BINARY_DIR "/zerogauge answer --reduction-group 3 "
                       "{cases} {answers} {world}"),
                 0, "%s", output);
    has("\"verdict\":\"EQUIVALENT\"");
    has("torch-cpu, ranks folded in groups, ");
}

Test(check, a_program_that_does_nothing_is_broken)
{
    cr_assert_eq(check("--requirement R-OPT-05 --json -- true {cases} {answers}"), 1, "%s", output);
    requirement_is("R-OPT-05", "BROKEN");
}

Test(check, a_program_that_ends_badly_is_broken_and_quoted)
{
    cr_assert_eq(check("--requirement R-OPT-05 -- sh -c 'echo no such luck >&2; exit 3' {cases} {answers}"), 1, "%s",
                 output);
    has("no such luck");
    has("status 3");
}

// Answers as the reference does, up to a case whose name matches; there it prints a traceback and what libraries print
// after it, and ends.
static void write_ending(const char *path, const char *pattern)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fprintf(file,
            "#!/bin/sh\n"
            "for name in $(tr -d '[]\",' <$1/order.json); do case $name in\n"
            "%s) mkdir $2/$name; echo '[rank1]: Traceback (most recent call last):'; echo '[rank1]:   File \"x\"';\n"
            "  echo '[rank1]: IndexError: list index out of range'; echo 'RuntimeError: worker 1 died';\n"
            "  echo 'See https://example.org/refleaks'; exit 1;;\n"
            "*) \"" ZG_BINARY_DIR "/zerogauge\" answer --case $1/$name $2/$name || exit 1;;\n"
            "esac; done\n",
            pattern);
    fclose(file);
    cr_assert_eq(chmod(path, 0700), 0);
}

Test(check, one_crash_breaks_one_case_and_its_exception_is_shown)
{
    char folder[PATH_MAX], path[PATH_MAX], arguments[3 * PATH_MAX];
    folder_make(folder);
    snprintf(path, sizeof path, "%.4000s/ends", folder);
    write_ending(path, "adam-eps.w2.s1.fp32");
    snprintf(arguments, sizeof arguments, "--case 'adam-eps.w2.*' --out %.4000s/out -- %.4000s {cases} {answers}",
             folder, path);
    cr_assert_eq(check(arguments), 1, "%s", output);
    has("BROKEN       R-OPT-05    Epsilon is outside the root (15 PASS, 1 BROKEN)");
    has("  where   case adam-eps.w2.s1.fp32, state");
    has("the command exited with status 1: IndexError: list index out of range (output/w2.txt)");
    cr_assert_null(strstr(output, "refleaks"), "%s", output);
    // Nothing else conforms less for it: the crash alone fails the run.
    has("PASS         R-PART-08");
    folder_remove(folder);
}

// Each launch answers two cases and hangs in the next: what is behind it is launched once more, and not as often as
// there are cases.
Test(check, a_program_that_hangs_is_launched_twice)
{
    char folder[PATH_MAX], path[PATH_MAX], arguments[3 * PATH_MAX], line[64] = "";
    folder_make(folder);
    snprintf(path, sizeof path, "%.4000s/hangs", folder);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fprintf(file,
            "#!/bin/sh\necho launch >>%.4000s/launches; count=0\n"
            "for name in $(tr -d '[]\",' <$1/order.json); do count=$((count + 1))\n"
            "[ $count -lt 3 ] || { mkdir $2/$name; exec sleep 60; }\n"
            "\"" ZG_BINARY_DIR "/zerogauge\" answer --case $1/$name $2/$name || exit 1; done\n",
            folder);
    fclose(file);
    cr_assert_eq(chmod(path, 0700), 0);
    snprintf(arguments, sizeof arguments, "--case 'adam-eps.w2.*' --time-limit 4 -- %.4000s {cases} {answers}", path);
    cr_assert_eq(check(arguments), 1, "%s", output);
    has("timed out after 4 s");
    snprintf(path, sizeof path, "%.4000s/launches", folder);
    cr_assert_not_null(file = fopen(path, "r"));
    int launches = 0;
    while (fgets(line, sizeof line, file))
        launches++;
    fclose(file);
    cr_expect_eq(launches, 2, "%d launches", launches);
    folder_remove(folder);
}

Test(check, a_program_that_cannot_stand_nonsense_fails_only_the_refusal)
{
    char folder[PATH_MAX], path[PATH_MAX], arguments[3 * PATH_MAX];
    folder_make(folder);
    snprintf(path, sizeof path, "%.4000s/ends", folder);
    write_ending(path, "conf-*");
    snprintf(arguments, sizeof arguments, "--case '@(adam-eps|conf-clip).w2.s1.fp32' -- %.4000s {cases} {answers}",
             path);
    cr_assert_eq(check(arguments), 0, "%s", output);
    has("BROKEN       R-CONF-01");
    has("SHOULD, no part of the verdict: 1 BROKEN of 1");
    folder_remove(folder);
}

// A right answer without a computation is found out by what was not asked.
Test(check, what_is_declined_or_not_claimed_is_no_part_of_conforming)
{
    static const char decliner[] = "sh -c 'for name in $(tr -d \"[]\\\",\" <$0/order.json); do case $name in *.s0.*) "
                                   "mkdir $1/$name; echo \"no stage 0\" >$1/$name/unsupported.txt;; *) " ZG_BINARY_DIR
                                   "/zerogauge answer --case $0/$name $1/$name;; esac; done' {cases} {answers}";
    char arguments[PATH_MAX + 1024];
    snprintf(arguments, sizeof arguments, "--case 'adam-eps.w2.*.fp32' -- %s", decliner);
    cr_assert_eq(check(arguments), 0, "%s", output);
    has("PARTLY       R-OPT-05    Epsilon is outside the root (");
    has(": declined: no stage 0)");
    has("CONFORMS-PARTLY (only a part of the suite was run: --case 'adam-eps.w2.*.fp32'; 3 of 4 cases were answered, 1 "
        "were declined)");
    snprintf(arguments, sizeof arguments, "--strict --case 'adam-eps.w2.*.fp32' -- %s", decliner);
    cr_assert_eq(check(arguments), 1, "less than CONFORMS");
    cr_assert_eq(check("--strict --case 'adam-eps.w2.*.fp32'"), 0, "%s", output);
}

Test(check, a_requirement_about_nvme_gets_no_credit_without_it)
{
    char folder[PATH_MAX], arguments[3 * PATH_MAX];
    folder_make(folder);
    snprintf(arguments, sizeof arguments, "%.4000s/claims.json", folder);
    FILE *file = fopen(arguments, "w");
    cr_assert_not_null(file);
    fputs("{\"contract\": 1, \"name\": \"none\", \"version\": \"2\", \"offload_optimizer\": [\"none\"]}", file);
    fclose(file);
    snprintf(arguments, sizeof arguments, "--json --requirement R-NVME-01 --case '*.w2.*' --claims %.4000s/claims.json",
             folder);
    cr_assert_eq(check(arguments), 77, "%s", output);
    requirement_is("R-NVME-01", "UNSUPPORTED");
    folder_remove(folder);
}

Test(check, the_command_is_not_told_what_is_right)
{
    cr_assert_eq(check("--case '@(adam-eps|conf-clip).w2.s1.fp32' -- sh -c '! grep -lE "
                       "\"\\\"(expect|exact|requirements)\\\"\" $0/*/case.json && exec " ZG_BINARY_DIR
                       "/zerogauge answer $0 $1 2' {cases} {answers}"),
                 0, "%s", output);
    has("refused: ");
}

Test(check, cases_and_requirements_may_be_given_several_times)
{
    cr_assert_eq(check("--help"), 0);
    has("'adam-*', '*.w2.s3.*'");
    cr_assert_eq(check("--list --case 'adam-eps.w2.s1.*' --case 'clip-off.w2.s2.fp32'"), 0, "%s", output);
    has("adam-eps.w2.s1.bf16");
    has("clip-off.w2.s2.fp32");
    cr_assert_null(strstr(output, "clip-off.w2.s1"));
    cr_assert_eq(check("--requirement R-OPT-05 --requirement R-CLIP-05 --case '*.w2.s1.fp32'"), 0, "%s", output);
    has("PASS         R-OPT-05");
    has("PASS         R-CLIP-05");
    has("--requirement R-OPT-05 --requirement R-CLIP-05 --case '*.w2.s1.fp32'");
}

// Requirements that speak of all cases are judged in those that were asked for.
Test(check, what_concerns_every_case_may_be_asked_of_a_few)
{
    cr_assert_eq(check("--requirement R-DET-03 --requirement R-ANS-01 --case 'adam-eps.w2.s1.*'"), 0, "%s", output);
    has("PASS         R-ANS-01    The answer is complete (4 PASS)");
    has("PASS         R-DET-03    One recipe explains everything (4 PASS)");
}

Test(check, a_program_that_takes_too_long_is_ended)
{
    cr_assert_eq(check("--time-limit 1 --requirement R-OPT-05 --json -- sh -c 'sleep 100' {cases} {answers}"), 1, "%s",
                 output);
    requirement_is("R-OPT-05", "BROKEN");
}

Test(check, initial_parameters_for_every_step_are_rejected)
{
    char text[64];
    if (command_run("command -v python3", text, sizeof text) != 0) {
        fprintf(stderr, "TEST SKIPPED: there is no python3\n");
        return;
    }
    // Every tensor of init.safetensors as the parameter and both moments of every step, and t as it should be.
    static const char copier[] =
        "import json,os,struct,sys\n"
        "cases,answers=sys.argv[1:3]\n"
        "for name in json.load(open(cases+'/order.json')):\n"
        "    case=json.load(open(cases+'/'+name+'/case.json')); os.mkdir(answers+'/'+name)\n"
        "    raw=open(cases+'/'+name+'/init.safetensors','rb').read(); n=struct.unpack('<Q',raw[:8])[0]\n"
        "    tensors={k:v for k,v in json.loads(raw[8:8+n]).items() if k!='__metadata__'}\n"
        "    for step in range(1,case['steps']+1):\n"
        "        head,data={},b''\n"
        "        for part in ('param','exp_avg','exp_avg_sq'):\n"
        "            for k,v in tensors.items():\n"
        "                a,b=v['data_offsets']; piece=raw[8+n+a:8+n+b]\n"
        "                head[part+'/'+k]={'dtype':'F32','shape':v['shape'],'data_offsets':[len(data),len(data)+b-a]}\n"
        "                data+=piece\n"
        "        head['t']={'dtype':'I64','shape':[],'data_offsets':[len(data),len(data)+8]}\n"
        "        data+=struct.pack('<q',step); text=json.dumps(head).encode(); text+=b' '*(-len(text)%8)\n"
        "        out=open(answers+'/'+name+'/step-%d.safetensors'%step,'wb')\n"
        "        out.write(struct.pack('<Q',len(text))+text+data)\n";
    char folder[PATH_MAX], arguments[3 * PATH_MAX], path[PATH_MAX];
    folder_make(folder);
    snprintf(path, sizeof path, "%.4000s/copier.py", folder);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(copier, file);
    fclose(file);
    snprintf(arguments, sizeof arguments, "--case 'adam-eps.*fp32*' --json -- python3 %s {cases} {answers}", path);
    cr_assert_eq(check(arguments), 1, "%s", output);
    requirement_is("R-OPT-05", "FAIL");
    folder_remove(folder);
}

Test(check, a_program_that_changes_its_cases_does_not_conform)
{
    char arguments[PATH_MAX + 256];
    snprintf(arguments, sizeof arguments,
             "--requirement R-OPT-05 -- sh -c '%s/zerogauge answer $0 $1 $2; for f in $0/*/init.safetensors; do "
             "chmod u+w $f; echo x >>$f; done' {cases} {answers} {world}",
             ZG_BINARY_DIR);
    cr_assert_eq(check(arguments), 1, "%s", output);
    has("changed the case");
    has("BROKEN       R-OPT-05");
}

Test(check, cases_may_be_asked_one_by_one)
{
    char arguments[PATH_MAX + 256];
    snprintf(arguments, sizeof arguments,
             "--case 'adam-eps.w2.*' --json -- %s/zerogauge answer --case {case} {answer} {state}", ZG_BINARY_DIR);
    cr_assert_eq(check(arguments), 0, "%s", output);
    requirement_is("R-OPT-05", "PASS");
}

Test(check, what_is_wrong_on_the_command_line_is_said)
{
    cr_assert_eq(check("-- true"), 2);
    has("{cases}");
    cr_assert_eq(check("--level most"), 2);
    has("expected quick or full");
    cr_assert_eq(check("--case no-such-case"), 2);
    has("no-such-case");
    cr_assert_eq(check("--requirement R-NO-01"), 2);
    has("R-NO-01");
    cr_assert_eq(check("--explain R-NO-01"), 2);
    cr_assert_eq(check("--claims /no/such/file"), 2);
    has("/no/such/file");
    cr_assert_eq(check("--plugin /no/such/file.so"), 2);
    cr_assert_eq(check("true {cases} {answers}"), 2);
    has("put the command to check after --");
    cr_assert_eq(check("--case 'adam-eps.w2.*' -- /no/such/program {cases} {answers}"), 2);
    has("/no/such/program");
    cr_assert_eq(check("--explain R-OPT-05"), 0);
    has("eps");
}

Test(check, a_folder_with_something_in_it_is_left_alone)
{
    char folder[PATH_MAX], arguments[2 * PATH_MAX];
    folder_make(folder);
    snprintf(arguments, sizeof arguments, "%.4000s/mine", folder);
    FILE *file = fopen(arguments, "w");
    cr_assert_not_null(file);
    fclose(file);
    snprintf(arguments, sizeof arguments, "--requirement R-OPT-05 --out %.4000s", folder);
    cr_assert_eq(check(arguments), 2);
    has("not an empty folder");
    folder_remove(folder);
}

Test(check, reports_lie_in_the_folder_that_is_given)
{
    static const char *const names[] = {"report.jsonl", "junit.xml", "report.html", "cases/w2/order.json"};
    char folder[PATH_MAX], arguments[2 * PATH_MAX];
    folder_make(folder);
    snprintf(arguments, sizeof arguments, "--case 'adam-eps.w2.*' --out %.4000s/new", folder);
    cr_assert_eq(check(arguments), 0, "%s", output);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(arguments, sizeof arguments, "%.4000s/new/%s", folder, names[i]);
        cr_assert_eq(access(arguments, R_OK), 0, "%s", arguments);
    }
    folder_remove(folder);
}

Test(check, a_part_is_reported_alone_and_said_to_be_one)
{
    cr_assert_eq(check("--requirement R-OPT-05"), 0, "%s", output);
    has("PASS         R-OPT-05");
    has("CONFORMS (only a part of the suite was run: --requirement R-OPT-05): 1 PASS of 1 requirement\n");
    cr_assert_null(strstr(output, "R-DET-01"), "%s", output);
    cr_assert_eq(check("--case 'adam-eps.w2.*'"), 0, "%s", output);
    has("R-DET-01");
    has("CONFORMS (only a part of the suite was run: --case 'adam-eps.w2.*')");
    cr_assert_null(strstr(output, "R-RED-01"), "%s", output);
    // Asked for alone, what only should be decides.
    cr_assert_eq(check("--case '@(adam-eps|clip-off).w2.s2.fp32'"), 0, "%s", output);
    has(" 4 cases in 1 launch");
    cr_assert_eq(check("--case 'adam-eps.w2.s2.fp32'"), 0, "%s", output);
    has(" 2 cases in 1 launch");
    cr_assert_eq(check("--requirement R-MEM-02 --case '*.w2.s2.fp32'"), 0, "%s", output);
    has("1 PASS of 1 requirement\n");
}

Test(check, the_version_of_the_reference_is_reported)
{
    cr_assert_eq(check("--requirement R-OPT-05"), 0, "%s", output);
    has("zerogauge check: zerogauge answer " ZG_VERSION ", level quick");
}

Test(check, the_line_that_repeats_a_finding_can_be_pasted)
{
    static const char begin[] = "  repeat  zerogauge ";
    char folder[PATH_MAX], arguments[3 * PATH_MAX], first[1024], line[PATH_MAX + 1024];
    folder_make(folder);
    snprintf(arguments, sizeof arguments, "%.4000s/it's mine.json", folder);
    FILE *file = fopen(arguments, "w");
    cr_assert_not_null(file);
    fputs("{\"contract\": 1, \"name\": \"quoted\", \"version\": \"2\", \"worlds\": [2]}", file);
    fclose(file);
    snprintf(arguments, sizeof arguments,
             "--case 'adam-eps.w2.s2.fp32' --time-limit 99.5 --claims \"%.4000s/it's mine.json\" -- "
             "sh -c 'echo \"$0 said it\" >&2; exit 3' \"it's\" {cases} {answers}",
             folder);
    cr_assert_eq(check(arguments), 1, "%s", output);
    char *found = strstr(output, begin);
    cr_assert_not_null(found, "%s", output);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(found, "\n"), found);
    cr_assert_not_null(strstr(first, " --time-limit 99.5 "), "%s", first);
    snprintf(line, sizeof line, "%s/%s", ZG_BINARY_DIR, found + strlen("  repeat  "));
    line[strcspn(line, "\n")] = '\0';
    strcat(line, " 2>&1");
    cr_assert_eq(command_run(line, output, sizeof output), 1, "%s", output);
    has("check: quoted 2, level quick");
    has("it's said it");
    has(first);
    folder_remove(folder);
}

Test(check, cases_are_written_to_a_new_folder_and_nowhere_else)
{
    char folder[PATH_MAX], arguments[2 * PATH_MAX], path[2 * PATH_MAX];
    folder_make(folder);
    snprintf(arguments, sizeof arguments, "--write-cases %.4000s/cases --case 'ckpt-same.w2.s2.fp32'", folder);
    cr_assert_eq(check(arguments), 0, "%s", output);
    static const char *const there[] = {"save/case.json", "save/init.safetensors", "save/grads-1.safetensors",
                                        "resume/case.json", "resume/grads-4.safetensors"};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++) {
        snprintf(path, sizeof path, "%.4000s/cases/ckpt-same.w2.s2.fp32.%s", folder, there[i]);
        cr_assert_eq(access(path, R_OK), 0, "%s", path);
    }
    char command[4 * PATH_MAX];
    snprintf(command, sizeof command,
             "cd %.4000s && %s/zerogauge answer cases answers 2 state 2>&1 && ls answers/ckpt-same.w2.s2.fp32.resume",
             folder, ZG_BINARY_DIR);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s", output);
    has("step-4.safetensors");
    cr_assert_eq(check(arguments), 2, "it is not empty");
    has("--write-cases");
    has("not an empty folder");
    snprintf(path, sizeof path, "%.4000s/cases/ckpt-same.w2.s2.fp32.save/case.json", folder);
    cr_assert_eq(access(path, R_OK), 0, "what was there is still there");
    snprintf(arguments, sizeof arguments, "--write-cases %.4000s/none --case no-such-case", folder);
    cr_assert_eq(check(arguments), 2, "%s", output);
    snprintf(path, sizeof path, "%.4000s/none", folder);
    cr_assert_neq(access(path, F_OK), 0, "nothing half-made stays");
    folder_remove(folder);
}

Test(check, the_list_is_of_what_was_asked_for)
{
    cr_assert_eq(check("--list --requirement R-OPT-05 --case '*.w2.s3.bf16'"), 0, "%s", output);
    cr_assert_str_eq(strtok(output, " "), "adam-eps.w2.s3.bf16");
    cr_assert_eq(check("--list --requirement R-OPT-05 --case no-such-case"), 2);
    has("serves R-OPT-05");
}

Test(check, placeholders_are_replaced_anywhere_in_a_word)
{
    static const char *const command[] = {"run", "--in={cases}/x", "{world}{world}", "{answers}", "{unknown}", NULL};
    const struct check_words words = {.cases = "/c", .answers = "/a", .state = "/s", .world = 11};
    char **argv;
    cr_assert_eq(check_command(command, &words, &argv), ERR_NONE);
    cr_assert_str_eq(argv[1], "--in=/c/x");
    cr_assert_str_eq(argv[2], "1111");
    cr_assert_str_eq(argv[3], "/a");
    cr_assert_str_eq(argv[4], "{unknown}");
    cr_assert_null(argv[5]);
    free(argv);
}

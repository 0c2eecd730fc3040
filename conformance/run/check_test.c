// SPDX-License-Identifier: Apache-2.0
// `zerogauge check` as a user meets it: what it says of programs that answer well, badly, or not at all.
#include "conformance/run/check.h"

#include "base/err.h"
#include "conformance/run/check_test.h"

#include <jansson.h>
#include <stdlib.h>

TestSuite(check, .init = check_setup, .fini = check_teardown);
TestSuite(check_observe, .init = check_setup, .fini = check_teardown);

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
static void write_ending(const char *pattern)
{
    char text[1024];
    snprintf(text, sizeof text,
             "#!/bin/sh\n"
             "for name in $(tr -d '[]\",' <$1/order.json); do case $name in\n"
             "%s) mkdir $2/$name; echo '[rank1]: Traceback (most recent call last):'; echo '[rank1]:   File \"x\"';\n"
             "  echo '[rank1]: IndexError: list index out of range'; echo 'RuntimeError: worker 1 died';\n"
             "  echo 'See https://example.org/refleaks'; exit 1;;\n"
             "*) \"" ZG_BINARY_DIR "/zerogauge\" answer --case $1/$name $2/$name || exit 1;;\n"
             "esac; done\n",
             pattern);
    write_text("ends", text);
}

Test(check, one_crash_breaks_one_case_and_its_exception_is_shown)
{
    write_ending("adam-eps.w2.s1.fp32");
    cr_assert_eq(check("--case 'adam-eps.w2.*' --out out -- ./ends {cases} {answers}"), 1, "%s", output);
    has("BROKEN       R-OPT-05    Epsilon is outside the root (15 PASS, 1 BROKEN)");
    has("  where   case adam-eps.w2.s1.fp32, answer");
    has("  also    R-OPT-05 MUST: Epsilon is outside the root");
    has("the command exited with status 1: IndexError: list index out of range (output/w2.txt)");
    lacks("refleaks");
    // Nothing else conforms less for it: the crash alone fails the run.
    has("PASS         R-PART-08");
}

// Each launch answers two cases and hangs in the next: what is behind it is launched once more, and not as often as
// there are cases.
Test(check, a_program_that_hangs_is_launched_twice)
{
    write_text("hangs", "#!/bin/sh\necho launch >>$(dirname $0)/launches; count=0\n"
                        "for name in $(tr -d '[]\",' <$1/order.json); do count=$((count + 1))\n"
                        "[ $count -lt 3 ] || { mkdir $2/$name; exec sleep 60; }\n"
                        "\"" ZG_BINARY_DIR "/zerogauge\" answer --case $1/$name $2/$name || exit 1; done\n");
    cr_assert_eq(check("--case 'adam-eps.w2.*' --time-limit 4 -- ./hangs {cases} {answers}"), 1, "%s", output);
    has("timed out: for 4 s it wrote nothing new");
    cr_assert_eq(run("cat launches"), 0);
    cr_expect_str_eq(output, "launch\nlaunch\n");
}

// An import that fails: twice in the first world, and once in each further one; and it is one finding.
Test(check, a_program_that_fails_before_its_first_case_is_one_finding)
{
    write_text("fails",
               "#!/bin/sh\necho launch >>$(dirname $0)/launches\n"
               "printf 'Traceback (most recent call last):\\n  File\\nStopIteration\\n\\nDuring handling of the '\n"
               "printf 'above exception, another exception occurred:\\n\\nTraceback (most recent call last):'\n"
               "printf '\\n  File\\nImportError: no zero\\n'; exit 1\n");
    cr_assert_eq(check("--case 'red-exact.*' -- ./fails {cases} {answers}"), 1, "%s", output);
    has("why     the command exited with status 1: ImportError: no zero (output/w2.txt)");
    cr_assert_null(strstr(strstr(output, "why     ") + 1, "why     "), "%s", output);
    has(" in 3 launches");
    cr_assert_eq(run("cat launches"), 0);
    cr_expect_str_eq(output, "launch\nlaunch\nlaunch\n");
}

// One rank refuses the first case while the others wait for it.
Test(check, a_launch_that_hangs_behind_a_refusal_hangs_in_that_case)
{
    write_text("hangs", "#!/bin/sh\nset -- $2 $(tr -d '[]\",' <$1/order.json)\nmkdir $1/$2\n"
                        "echo AssertionError: a fragment >$1/$2/refused.txt; exec sleep 60\n");
    cr_assert_eq(check("--case 'adam-eps.w2.s2.fp32' --time-limit 1 -- ./hangs {cases} {answers}"), 1, "%s", output);
    has("FAIL R-ANS-01");
    has("why     refused a valid case: AssertionError: a fragment");
    lacks("why     the command timed out");
}

Test(check, a_program_that_cannot_stand_nonsense_fails_only_the_refusal)
{
    write_ending("conf-*");
    cr_assert_eq(check("--case '@(adam-eps|conf-clip).w2.s1.fp32' -- ./ends {cases} {answers}"), 0, "%s", output);
    has("BROKEN       R-CONF-01");
    has("SHOULD, no part of the verdict: 1 BROKEN of 1");
}

Test(check, what_is_declined_or_not_claimed_is_no_part_of_conforming)
{
    static const char decliner[] = "sh -c 'for name in $(tr -d \"[]\\\",\" <$0/order.json); do case $name in *.s0.*) "
                                   "mkdir $1/$name; echo \"no stage 0\" >$1/$name/unsupported.txt;; *) " ZG_BINARY_DIR
                                   "/zerogauge answer --case $0/$name $1/$name;; esac; done' {cases} {answers}";
    cr_assert_eq(check("--case 'adam-eps.w2.*.fp32' -- %s", decliner), 0, "%s", output);
    has("PARTLY       R-OPT-05    Epsilon is outside the root (");
    has(": declined: no stage 0)");
    has("CONFORMS-PARTLY (only a part of the suite was run: --case 'adam-eps.w2.*.fp32'; 3 of 4 cases were answered, 1 "
        "were declined)");
    cr_assert_eq(check("--strict --case 'adam-eps.w2.*.fp32' -- %s", decliner), 1, "less than CONFORMS");
    cr_assert_eq(check("--strict --case 'adam-eps.w2.*.fp32'"), 0, "%s", output);
}

Test(check, a_requirement_about_nvme_gets_no_credit_without_it)
{
    write_text("claims.json",
               "{\"contract\": 1, \"name\": \"none\", \"version\": \"2\", \"offload_optimizer\": [\"none\"]}");
    cr_assert_eq(check("--json --requirement R-NVME-01 --case '*.w2.*' --claims claims.json"), 77, "%s", output);
    requirement_is("R-NVME-01", "UNSUPPORTED");
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
    lacks("clip-off.w2.s1");
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
    cr_assert_eq(check("--time-limit 0.2 --requirement R-OPT-05 --json -- sh -c 'sleep 100' {cases} {answers}"), 1,
                 "%s", output);
    requirement_is("R-OPT-05", "BROKEN");
}

Test(check, initial_parameters_for_every_step_are_rejected)
{
    if (run("command -v python3") != 0) {
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
    write_text("copier.py", copier);
    cr_assert_eq(check("--case 'adam-eps.*fp32*' --json -- python3 copier.py {cases} {answers}"), 1, "%s", output);
    requirement_is("R-OPT-05", "FAIL");
}

Test(check, a_program_that_changes_its_cases_does_not_conform)
{
    cr_assert_eq(check("--requirement R-OPT-05 -- sh -c '" ZG_BINARY_DIR "/zerogauge answer $0 $1 $2; "
                       "for f in $0/*/init.safetensors; do chmod u+w $f; echo x >>$f; done' {cases} {answers} {world}"),
                 1, "%s", output);
    has("changed the case");
    has("BROKEN       R-OPT-05");
}

Test(check, a_program_that_rewrites_the_list_of_its_cases_does_not_conform)
{
    static const char *const changes[] = {"echo '[]' >$1/order.json", "rm $1/order.json"};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        char text[512];
        snprintf(text, sizeof text, "#!/bin/sh\n" ZG_BINARY_DIR "/zerogauge answer $1 $2 2 || exit 1\n%s\n",
                 changes[i]);
        write_text("cheats", text);
        cr_assert_eq(check("--case 'adam-eps.w2.*' -- ./cheats {cases} {answers}"), 1, "%s", output);
        has("the command changed {cases}/order.json");
        has("BROKEN       R-OPT-05");
    }
}

// It could only fail for lack of a checkpoint.
Test(check, a_half_whose_saving_half_crashed_is_not_asked)
{
    write_text("crashes",
               "#!/bin/sh\ncp $1/order.json ${2##*/}.json\n" ZG_BINARY_DIR "/zerogauge answer $1 $2 $3 $4 || exit 1\n"
               "if test -e $2/ckpt-same.w2.s2.fp32.save; then rm -r $2/ckpt-same.w2.s2.fp32.save/*; exit 3; fi\n");
    const char *command = "--case 'ckpt-same.w2.s[12].fp32' --out out -- ./crashes {cases} {answers} {world} {state}";
    cr_assert_eq(check("%s", command), 1, "%s", output);
    cr_assert_eq(run("cat out/report.jsonl"), 0);
    has("the saving half of the case has no answer");
    cr_assert_eq(run("cat w2-resume*.json"), 0);
    has("ckpt-same.w2.s1.fp32.resume");
    lacks("ckpt-same.w2.s2.fp32.resume");
}

Test(check, cases_may_be_asked_one_by_one)
{
    cr_assert_eq(
        check("--case 'adam-eps.w2.*' --json -- " ZG_BINARY_DIR "/zerogauge answer --case {case} {answer} {state}"), 0,
        "%s", output);
    requirement_is("R-OPT-05", "PASS");
}

Test(check, what_is_wrong_on_the_command_line_is_said)
{
    static const struct {
        const char *arguments, *says;
    } rows[] = {
        {"-- true", "{cases}"},
        {"--level most", "expected quick or full"},
        {"--case no-such-case", "no-such-case"},
        {"--requirement R-NO-01", "R-NO-01"},
        {"--explain R-NO-01", "R-NO-01"},
        {"--claims /no/such/file", "/no/such/file"},
        {"--plugin /no/such/file.so", "/no/such/file.so"},
        {"--plugin text.so --out out", "text.so: cannot be loaded: "},
        {"true {cases} {answers}", "put the command to check after --"},
        {"--case 'adam-eps.w2.*' -- /no/such/program {cases} {answers}", "/no/such/program"},
    };
    write_text("text.so", "no library");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_assert_eq(check("%s", rows[i].arguments), 2, "%s", rows[i].arguments);
        has(rows[i].says);
    }
    cr_assert_eq(run("echo $(ls out/output)"), 0);
    cr_expect_str_eq(output, "w1.txt\n", "one launch says it: %s", output);
    cr_assert_eq(check("--explain R-OPT-05"), 0);
    has("eps");
}

Test(check, a_folder_with_something_in_it_is_left_alone)
{
    write_text("mine", "");
    cr_assert_eq(check("--requirement R-OPT-05 --out ."), 2);
    has("not an empty folder");
}

Test(check, reports_lie_in_the_folder_that_is_given)
{
    static const char *const names[] = {"report.jsonl", "junit.xml", "report.html", "cases/w2/order.json"};
    cr_assert_eq(check("--case 'adam-eps.w2.*' --out new"), 0, "%s", output);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cr_assert_eq(run("test -r new/%s", names[i]), 0, "%s", names[i]);
}

Test(check, reports_do_not_need_a_reader_of_the_table)
{
    cr_assert_eq(check("--case 'adam-eps.w2.s2.fp32' --out new 2>&1 >/dev/full"), 2, "%s", output);
    cr_assert_eq(run("tail -n 1 new/report.jsonl | grep -q '\"record\":\"end\"' && test -s new/report.html"), 0);
}

Test(check, a_part_is_reported_alone_and_said_to_be_one)
{
    cr_assert_eq(check("--requirement R-OPT-05"), 0, "%s", output);
    has("PASS         R-OPT-05");
    has("CONFORMS (only a part of the suite was run: --requirement R-OPT-05): 1 PASS of 1 requirement\n");
    lacks("R-DET-01");
    cr_assert_eq(check("--case 'adam-eps.w2.*'"), 0, "%s", output);
    has("R-DET-01");
    has("CONFORMS (only a part of the suite was run: --case 'adam-eps.w2.*')");
    lacks("R-RED-01");
    // Asked for alone, what only should be decides.
    cr_assert_eq(check("--case '@(adam-eps|clip-off).w2.s2.fp32'"), 0, "%s", output);
    has(" 2 cases, 2 of them asked twice, in 1 launch");
    cr_assert_eq(check("--case 'adam-eps.w2.s2.fp32'"), 0, "%s", output);
    has(" 1 case, 1 of them asked twice, in 1 launch");
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
    char first[1024];
    write_text("it's mine.json", "{\"contract\": 1, \"name\": \"quoted\", \"version\": \"2\", \"worlds\": [2]}");
    cr_assert_eq(check("--case 'adam-eps.w2.s2.fp32' --time-limit 99.5 --claims \"it's mine.json\" -- "
                       "sh -c 'echo \"$0 said it\" >&2; exit 3' \"it's\" {cases} {answers}"),
                 1, "%s", output);
    char *found = strstr(output, begin);
    cr_assert_not_null(found, "%s", output);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(found, "\n"), found);
    cr_assert_not_null(strstr(first, " --time-limit 99.5 "), "%s", first);
    cr_assert_eq(run(ZG_BINARY_DIR "/%s", first + strlen("  repeat  ")), 1, "%s", output);
    has("check: quoted 2, level quick");
    has("it's said it");
    has(first);
}

Test(check, cases_are_written_to_a_new_folder_and_nowhere_else)
{
    static const char writes[] = "--write-cases cases --case 'ckpt-same.w2.s2.fp32'";
    static const char *const there[] = {"save/case.json", "save/init.safetensors", "save/grads-1.safetensors",
                                        "resume/case.json", "resume/grads-4.safetensors"};
    cr_assert_eq(check("%s", writes), 0, "%s", output);
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        cr_assert_eq(run("test -r cases/ckpt-same.w2.s2.fp32.%s", there[i]), 0, "%s", there[i]);
    cr_assert_eq(run(ZG_BINARY_DIR "/zerogauge answer cases answers 2 state && ls answers/ckpt-same.w2.s2.fp32.resume"),
                 0, "%s", output);
    has("step-4.safetensors");
    cr_assert_eq(check("%s", writes), 2, "it is not empty");
    has("--write-cases");
    has("not an empty folder");
    cr_assert(is_in_folder("cases/ckpt-same.w2.s2.fp32.save/case.json"), "what was there is still there");
    cr_assert_eq(check("--write-cases none --case no-such-case"), 2, "%s", output);
    cr_assert_not(is_in_folder("none"), "nothing half-made stays");
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

// `zerogauge check` of the reference as a foreign program, with claims of a small part of everything.
static int check_claims(const char *more, const char *options)
{
    char text[512];
    snprintf(text, sizeof text,
             "{\"contract\": 1, \"name\": \"mine\", \"version\": \"1\", \"worlds\": [4], \"stages\": [1], "
             "\"precisions\": [\"fp32\"], \"features\": [\"clipping\"], \"optional\": [%s]}",
             more);
    write_text("claims.json", text);
    return check("--claims claims.json %s -- " ZG_BINARY_DIR "/zerogauge answer {cases} {answers} {world} {state}",
                 options);
}

Test(check, what_is_not_claimed_is_not_part_of_the_run)
{
    cr_assert_eq(check_claims("", "--case '@(hsdp-clip|clip-above).w4.s1.fp32*'"), 2, "%s", output);
    has("is called \"@(hsdp-clip");
    cr_assert_eq(check_claims("", "--case '@(tp-clip|red-cancel).w4.s1.f*'"), 0, "%s", output);
    has(": 1 case, 1 of them asked twice, in 1 launch, ");
    lacks("R-TP-04");
    lacks("PARTLY");
}

Test(check, what_is_claimed_is_asked_and_nothing_beyond)
{
    cr_assert_eq(check_claims("\"tensor\"", "--case '@(tp-clip|hsdp-clip|red-cancel).w4.s1.f*'"), 0, "%s", output);
    has("PASS         R-TP-04");
    lacks("R-MESH-03");
}

Test(check, a_requirement_that_is_not_claimed_cannot_be_asked_for)
{
    cr_assert_eq(check_claims("\"tensor\"", "--requirement R-PP-03"), 2, "%s", output);
    has("R-PP-03 is optional: claims ask for it with \"pipeline\" in the list \"optional\"");
}

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

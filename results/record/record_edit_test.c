// SPDX-License-Identifier: Apache-2.0
// report --verify against forgers: edits of a published result that keep its digest right. Each is refused with its
// reason, or keeps the run from being ranked.
#include "results/record/record_edit_test.h"

#include "results/record/record_verify.h"

#include <dirent.h>
#include <fnmatch.h>

#define FOLDER ZG_SOURCE_DIR "/results/published"

TestSuite(record_edit, .init = sample_folder_make, .fini = sample_folder_remove);

#define SKIP(of, needs)                                                                                                \
    "{\"record\":\"skip\",\"name\":\"" of "\",\"case\":{},\"needs_bytes\":" needs ",\"available_bytes\":2}"

// "unranked: " and "own: " begin what record_unranked and record_own_limits list; the others are refusals.
static const struct {
    const char *changes, *reason;
} edits[] = {
    // The run.
    {"run program=\"bench\"", "unranked: it is no run of validate"},
    {"run program=\"measure\"", "unranked: it is no run of validate"},
    {"run level=\"quick\"", "1: level: is quick, expected full by the command"},
    {"run level=null", "1: level: is null, expected quick or full"},
    {"run level=\"extreme\"", "1: level: is extreme, expected quick or full"},
    {"run command.2=\"--quick\"", "1: level: is full, expected quick by the command"},
    {"run command.2=\"-q\"", "1: level: is full, expected quick by the command"},
    {"run command.1=\"bench\"", "1: command: is not of `validate`"},
    {"run command.2=\"--emulate=h2d=1\"", "verdict: is VALID, expected INCOMPLETE: lanes were emulated"},
    {"run suite.edition=4", "1: suite.edition: is 4; this program knows the suite's versions 1 to 3"},
    {"run suite.dirty=true", "unranked: its sources are changed"},
    {"run machine.gpus=[{\"model\":\"H100\",\"power_limit_w\":400,\"power_default_w\":700}]",
     "1: machine.gpus: says that H100 may take 400 W of its 700"},
    {"bench:swap yardstick.name=\"registers\"; bench:swap yardstick.samples=[900,800,801,802,803,804,805]",
     "to the best sample of \"registers\", a bound: expected at most 1.1"},
    {"run schema=2", "schema: is 2, expected a whole number from 1 to 1"},
    // Parts.
    {"part:arithmetic -", "verdict: is VALID, expected a part arithmetic"},
    {"part:arithmetic -; conformance -; requirement:* -; finding:arithmetic -", "expected a part arithmetic"},
    {"part:bench-adam -", "name: is adam, expected a result of the part before it"},
    {"part:bench-swap -; bench:swap -; band:swap -; finding:swap -", "expected a part bench-swap"},
    {"part:bench-pcie -; finding:bench-pcie -", "expected a part bench-pcie"},
    {"part:bench-swap +", "name: is bench-swap, of which there is another one"},
    {"part:bench-swap name=\"bench-swop\"", "name: is bench-swop, which is no part of validate"},
    {"part:bench-pcie name=\"bench-links\"", "command: is bench pcie, expected the command of bench-links"},
    {"part:bench-adam command.2=\"comm\"", "command: is bench comm, expected the command of bench-adam"},
    {"part:arithmetic command.1=\"bench\"", "command: is bench --json, expected the command of arithmetic"},
    {"part:bench-adam command.3=\"--quick\"", "command: is quick, expected a command of the level full"},
    {"part:arithmetic command.3=\"--json\"", "command: is quick, expected a command of the level full"},
    {"part:bench-adam command.3=\"--repeat=1\"", "command: has --repeat=1, which validate gives no part of a full run"},
    {"part:bench-adam command.3=\"--budget\"", "command: has --budget, which validate gives no part of a full run"},
    {"part:bench-step command.4=\"--emulate\"", "verdict: is VALID, expected INCOMPLETE: lanes were emulated"},
    {"part:bench-adam status=1", "reason: is null, expected why the part did not succeed"},
    {"part:bench-adam status=1; part:bench-adam reason=\"failed\"", "has 0 findings of the kind part"},
    {"part:bench-nvme status=77; part:bench-nvme reason=\"SKIP\"; finding:bench-pcie id=\"bench-nvme\"",
     "has 0 findings of the kind part"},
    {"part:bench-pcie status=0", "status: is 0, expected results after it"},
    {"part:bench-pcie status=1", "record: is called VALID by a finding, though the part did not succeed"},
    {"part:bench-adam status=null; part:bench-adam reason=\"killed\"", "has 0 findings of the kind part"},
    {"part:bench-adam signal=9", "signal: is a number, expected null with a status"},
    {"part:bench-adam end_s=99999", "end_s: is 99999, expected at most the"},
    {"part:bench-adam end_s=0", "end_s: is 0, expected no less than begin_s"},
    {"finding:bench-pcie -", "has 0 findings of the kind part"},
    // The conformance suite.
    {"conformance -; finding:arithmetic -", "record: is without a `conformance` record"},
    {"conformance +", "record: is a second `conformance`"},
    {"conformance level=\"quick\"", "level: is quick, expected full, the level of the run"},
    {"conformance case_count=814", "case_count: is 814, expected at least the"},
    {"conformance case_count=", "case_count: is 0, expected at least the"},
    {"conformance verdict=\"CONFORMS-PARTLY\"", "verdict: is CONFORMS-PARTLY, expected CONFORMS"},
    {"conformance verdict=\"NOTHING-JUDGED\"", "verdict: is NOTHING-JUDGED, expected CONFORMS"},
    {"conformance verdict=\"FAILS\"", "verdict: is FAILS, which a finding calls VALID, expected INVALID"},
    {"conformance requirement_counts.PASS=81", "requirement_counts: has 81 PASS, expected the 80"},
    {"requirement:R-OPT-01 -; conformance requirement_counts.PASS=79", "has no `requirement` record of R-OPT-01"},
    {"requirement:R-OPT-01 must=false", "must: is false, expected true for R-OPT-01"},
    {"requirement:R-MEM-02 must=true", "must: is true, expected false for R-MEM-02"},
    {"requirement:R-OPT-01 must=false; requirement:R-OPT-01 verdict=\"FAIL\"; requirement:R-OPT-01 "
     "finding_counts.FAIL=1; conformance requirement_counts.PASS=79; conformance requirement_counts.FAIL=1",
     "must: is false, expected true for R-OPT-01"},
    {"requirement:R-OPT-01 verdict=\"FAIL\"; requirement:R-OPT-01 finding_counts.FAIL=1; conformance "
     "requirement_counts.PASS=79; conformance requirement_counts.FAIL=1",
     "verdict: is CONFORMS, expected FAILS from the requirements"},
    {"requirement:R-OPT-01 verdict=\"UNSUPPORTED\"; requirement:R-OPT-01 finding_counts.PASS=0; conformance "
     "requirement_counts.PASS=79; conformance requirement_counts.UNSUPPORTED=1",
     "verdict: is CONFORMS, expected CONFORMS-PARTLY"},
    {"requirement:R-OPT-01 id=\"R-OPT-99\"", "id: is R-OPT-99, which is no requirement of this suite"},
    {"requirement:R-OPT-01 +; conformance requirement_counts.PASS=81", "id: is R-OPT-01, of which there is another"},
    {"requirement:R-OPT-01 verdict=\"EQUIVALENT\"", "verdict: is EQUIVALENT, expected PASS"},
    {"requirement:R-OPT-01 finding_counts.FAIL=1", "verdict: is PASS, expected FAIL from the findings' counts"},
    {"finding:arithmetic -", "has 0 findings of the kind arithmetic"},
    {"finding:arithmetic +", "has 2 findings of the kind arithmetic"},
    {"finding:arithmetic verdict=\"INVALID\"; end verdict=\"INVALID\"",
     "which a finding calls INVALID, expected VALID"},
    {"finding:arithmetic line=null", "line: is null, expected the line of the `conformance` record"},
    // Benchmarks.
    {"bench:adam samples=[3]; bench:adam median=3; bench:adam p10=3; bench:adam p90=3",
     "samples: has 1, expected at least 15 of the part bench-adam"},
    {"bench:nvme samples=[2,2]; bench:nvme median=2; bench:nvme p10=2; bench:nvme p90=2",
     "samples: has 2, expected at least 5 of the part bench-nvme"},
    {"bench:adam yardstick.samples=[2]; bench:adam yardstick.median=2; bench:adam yardstick.p10=2; bench:adam "
     "yardstick.p90=2",
     "yardstick.samples: has 1, expected at least 15"},
    {"bench:adam samples=[]", "samples: is [], expected an array of 1 to"},
    {"bench:adam median=1", "median: is 1, expected"},
    {"bench:adam p10=1", "p10: is 1, expected"},
    {"bench:adam p90=1", "p90: is 1, expected"},
    {"bench:adam yardstick.median=9", "yardstick.median: is 9, expected"},
    {"bench:adam ratio=2", "ratio: is 2, expected"},
    {"bench:adam ratio=null", "ratio: is null, expected a number with a baseline"},
    {"bench:adam yardstick=null", "ratio: is a number, expected null without a baseline"},
    {"bench:adam yardstick.unit=\"ms\"", "yardstick.unit: is ms, expected ns_per_param"},
    {"bench:adam unit=\"GB/s\"", "lower_is_better: is true, expected false for GB/s"},
    {"bench:adam lower_is_better=false", "lower_is_better: is false, expected true"},
    {"bench:adam elapsed_s=1e-9", "elapsed_s: is 1e-09, expected at least the"},
    {"bench:adam elapsed_s=1e9", "elapsed_s: is 1e+09, expected at most the"},
    {"bench:adam items=1e15", "expected at least the"},
    {"bench:adam verified=false", "verified: is false, expected true"},
    {"bench:adam name=\"nvme\"", "name: is nvme, expected a result of the part before it, bench-adam"},
    {"bench:overlap timeline=[{\"lane\":\"compute\",\"begin_ms\":0,\"end_ms\":1e9}]", "timeline: has an interval"},
    {"bench:step detail.tokens_per_s=1e9", "detail.tokens_per_s: is 1e+09"},
    {"bench:step detail.efficiency.predicted=0.5", "detail.efficiency.predicted: is 0.5"},
    {"bench:step detail.efficiency.difference=0.5", "detail.efficiency.difference: is 0.5"},
    {"bench:step_flops detail.share_of_square=2", "detail.share_of_square: is 2"},
    {"part:bench-swap >" SKIP("adam", "9000000000000000"),
     "name: is adam, expected a result of the part before it, bench-swap"},
    {"part:bench-swap >" SKIP("swap", "1"), "needs_bytes: is 1, expected more than the 2 available"},
    {"part:bench-swap >" SKIP("swap", "9000000000000000") "; bench:swap -; band:swap -; finding:swap -",
     "own: swap is missing"},
    // Accepted ranges, outliers.
    {"band:adam-update -", "id: adam-update is not a `band` record that matches"},
    {"band:adam-update -; finding:adam-update -", "own: adam-update is missing"},
    {"band:adam-update at_least=0.1", "own: adam-update is looser"},
    {"band:adam-update at_least=0.99999", "is called VALID by a finding, expected INVALID"},
    {"band:adam-update case.step=\"none\"", "id: adam-update matches no `bench` record"},
    {"band:nvme-latency-read metric=\"median\"", "unit: is us, but the accepted range nvme-latency-read is in"},
    {"finding:adam-update verdict=\"INVALID\"", "is called INVALID by a finding, expected VALID"},
    {"finding:adam-update value=9", "but 9 in the finding of the accepted range adam-update"},
    {"finding:adam-update -", "has 0 findings of the kind band by adam-update"},
    {"finding:adam-update line=1", "line: is 1, expected the line of a `bench` record"},
    {"finding:outlier value=5", "but 5 in the finding ranks-"},
    {"finding:outlier verdict=\"INVALID\"", "is called INVALID by the finding ranks-"},
    {"finding:ranks-compute-alone -", "3 findings are about outliers, expected 4"},
    {"finding:adam-update text=\"adam-update: all is well\"", "text: is adam-update: all is well, expected"},
    {"finding:ranks-compute-alone text=\"of 2 ranks none is slow\"", "text: is of 2 ranks none is slow, expected"},
    {"finding:arithmetic text=\"arithmetic: fine\"", "expected arithmetic: the conformance suite reports CONFORMS"},
    {"finding:bench-pcie text=\"bench-pcie: not asked for\"", "expected bench-pcie: SKIP: pcie: no CUDA device"},
    // Records of a whole run.
    {"conformance implementation=\"my own\"", "implementation: is my own, expected zerogauge answer"},
    {"bench:step_lane -", "has no `bench` record of step_lane"},
    {"bench:memory_touch -", "has no `bench` record of memory_touch"},
    {"bench:adam +", "case: is another `bench` record's"},
    {"bench:step_flops +", "case: is another `bench` record's"},
    {"fit:llama-8b +", "case: is another `fit` record's"},
    {"band:step +", "case: is another `band` record's"},
    {"fit:llama-8b -", "has no `fit` record of the model llama-8b"},
    {"run suite.edition=2", "has no `health` record"},
    // Models that fit, and the end.
    {"fit:gpt2-124m fits=false", "fits: is false, expected true"},
    {"fit:llama-8b fits=true", "fits: is true, expected false"},
    {"fit:llama-8b reason=null", "reason: is null, expected what does not fit"},
    {"end verdict=\"INVALID\"", "verdict: is INVALID, expected VALID from the findings"},
    {"end verdict=null", "verdict: is null, expected VALID from the findings"},
    {"end reasons=[\"none\"]", "reasons: are not the texts of the 0 findings"},
    {"end status=\"interrupted\"", "verdict: is VALID, expected INCOMPLETE from the findings"},
    {"end elapsed_s=1", "expected at most the 1 s of the whole run"},
    {"end other_load=0.9", "unranked: other programs used 90 % of the processors"},
    {"end other_load=null", "unranked: the load of other programs is unknown"},
    {"end other_load=1.5", "other_load: is 1.5, expected a number from 0 to 1"},
    {"end -", "record: is not `end`: the run failed"},
};
enum { EDIT_COUNT = sizeof edits / sizeof *edits };

// A published result by its number, from 0; null: there is none.
static const char *published(int index)
{
    static char path[PATH_MAX];
    struct dirent **names;
    int count = scandir(FOLDER, &names, NULL, alphasort), i = 0;
    cr_assert_geq(count, 0, FOLDER);
    *path = '\0';
    for (; i < count; i++) {
        if (!*path && fnmatch("*.jsonl", names[i]->d_name, 0) == 0 && index-- == 0)
            snprintf(path, sizeof path, "%s/%s", FOLDER, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    if (!*path && index == 0)
        printf("TEST SKIPPED: nothing is published yet; ci/publish does it\n");
    return *path ? path : NULL;
}

// Returns the program's words about the edited file, with the number of refusals; the caller frees the text.
static char *said_about(const char *path, size_t *refusals)
{
    struct result_file file;
    char *text, unranked[UNRANKED_TEXT_BYTES] = "", own[OWN_LIMITS_TEXT_BYTES] = "";
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (result_open(path, &file) != ERR_NONE) {
        fputs(err_message(), out);
        *refusals = 1;
    } else {
        cr_assert_eq(record_verify(&file, out, refusals), ERR_NONE);
        if (*refusals == 0) {
            record_unranked(&file, unranked);
            cr_assert_eq(record_own_limits(&file, own), ERR_NONE);
            fprintf(out, "%s%s\n%s%s", *unranked ? "unranked: " : "", unranked, *own ? "own: " : "", own);
        }
        result_close(&file);
    }
    fclose(out);
    return text;
}

Test(record_edit, an_unedited_result_is_accepted_and_ranked)
{
    struct edited edited;
    size_t refusals;
    const char *path = published(0);
    if (!path)
        return;
    edit_open(path, &edited);
    char *text = said_about(edit_write(&edited, "a"), &refusals);
    cr_expect_eq(refusals, 0, "%s", text);
    cr_expect_str_eq(text, "\n");
    free(text);
    // A GPU that was slowed before the run is no reason to refuse its file.
    edit_apply(&edited, "run machine.gpus=[{\"model\":\"H100\",\"throttle_reasons\":64}]");
    text = said_about(edit_write(&edited, "b"), &refusals);
    cr_expect_not(strstr(text, "machine.gpus"), "%s", text);
    free(text);
    edit_close(&edited);
}

Test(record_edit, every_edit_is_refused_with_its_reason)
{
    const char *path = published(0);
    cr_assert_geq(EDIT_COUNT, 60);
    for (size_t i = 0; path && i < EDIT_COUNT; i++) {
        struct edited edited;
        size_t refusals;
        bool listed = strncmp(edits[i].reason, "unranked: ", 10) == 0 || strncmp(edits[i].reason, "own: ", 5) == 0;
        edit_open(path, &edited);
        edit_apply(&edited, edits[i].changes);
        char *text = said_about(edit_write(&edited, "a"), &refusals);
        cr_expect_not_null(strstr(text, edits[i].reason), "%s: expected \"%s\", not:\n%s", edits[i].changes,
                           edits[i].reason, text);
        cr_expect_eq(listed, refusals == 0, "%s:\n%s", edits[i].changes, text);
        free(text);
        edit_close(&edited);
    }
}

// Files of GPUs, each of one benchmark.
static const char *const of_gpus[] = {"adam", "comm", "memory", "overlap", "pcie"};
enum { GPU_COUNT = sizeof of_gpus / sizeof *of_gpus };

// A text of what is refused where record `at` of a file is left out, or doubled; the caller frees it.
static char *said_without(const char *path, size_t at, bool doubled, size_t *refusals)
{
    struct edited edited;
    edit_open(path, &edited);
    if (doubled)
        edit_insert(&edited, at, json_deep_copy(edited.records[at]));
    else
        edit_remove(&edited, at);
    char *text = said_about(edit_write(&edited, "a"), refusals);
    edit_close(&edited);
    return text;
}

// Leaves out, and doubles, every step-th record of a kind. Returns their number.
static size_t expect_each_is_missed(const char *path, const char *kind, size_t step)
{
    struct edited edited;
    size_t count = 0;
    edit_open(path, &edited);
    for (size_t i = 0; i < edited.count; i++) {
        if (!edit_matches(edited.records[i], kind) || count++ % step > 0)
            continue;
        for (int doubled = 0; doubled < 2; doubled++) {
            size_t refusals;
            char *text = said_without(path, i, doubled, &refusals);
            cr_expect_gt(refusals, 0, "%s:%zu %s", path, i + 1, doubled ? "doubled" : "left out");
            free(text);
        }
    }
    edit_close(&edited);
    return count;
}

Test(record_edit, no_record_of_a_whole_run_may_be_left_out_or_doubled)
{
    char path[PATH_MAX];
    for (int i = 0; i < 3 && published(i); i++) {
        cr_expect_gt(expect_each_is_missed(published(i), "bench", 31), 200);
        cr_expect_eq(expect_each_is_missed(published(i), "health", 1), i == 0 ? 0 : 1);
        cr_expect_eq(expect_each_is_missed(published(i), "fit", 5), 14);
    }
    for (int i = 0; i < GPU_COUNT; i++) {
        snprintf(path, sizeof path, "%s/gpu/nvidia-h100-80gb-hbm3-2026-11-22-%s.jsonl", FOLDER, of_gpus[i]);
        cr_expect_gt(expect_each_is_missed(path, "bench", 1), 0, "%s", path);
    }
    // Of a model that options chose: a step and its rate.
    cr_expect_eq(expect_each_is_missed(ZG_SOURCE_DIR "/results/record/record_edit_test.jsonl", "bench", 1), 2);
}

// SPDX-License-Identifier: Apache-2.0
// Versions, fresh numbers and coverage, as a user of `zerogauge check` meets them.
#include "base/err.h"
#include "conformance/run/check_select.h"
#include "conformance/run/check_test.h"
#include "conformance/claims/claims.h"

#include <sched.h>

TestSuite(check_cover, .init = check_setup, .fini = check_teardown);

Test(check_cover, a_list_ends_with_the_pairs_that_it_covers)
{
    cr_assert_eq(check("--list"), 0, "%s", output);
    has("\npair-001.w");
    const char *line = strstr(output, "\nPairs of factor values that can occur: ");
    size_t pairs, covered;
    cr_assert_eq(sscanf(line, " Pairs of factor values that can occur: %zu, covered: %zu", &pairs, &covered), 2);
    cr_assert_gt(pairs, 2900);
    cr_assert_eq(covered, pairs);
}

Test(check_cover, the_first_version_has_no_case_of_the_second)
{
    cr_assert_eq(check("--list --suite-version 1"), 0, "%s", output);
    lacks("pair-");
    lacks("mp-largest");
    has("adam-basic.w2.s1.fp32");
    cr_assert_eq(check("--suite-version 1 --case 'adam-eps.w2.s1.*'"), 0, "%s", output);
    has(", suite version 1, level quick, seed 0: 2 cases, 2 of them");
    cr_assert_eq(check("--list --suite-version 4"), 2);
    has("--suite-version 4: expected 1 to 3");
}

struct selection {
    const struct requirement *requirement;
    uint64_t names;  // a digest of them in their order
};

static int take(void *context, const struct check_case *c)
{
    struct selection *selection = context;
    bool covers = requirement_covers(selection->requirement, c->name);
    for (const char *at = c->name; covers && *at; at++)
        selection->names = selection->names * 31 + (unsigned char)*at;
    return ERR_NONE;
}

Test(check_cover, a_requirement_selects_what_it_covers_of_the_whole_suite)
{
    for (int i = 0; requirement_at(i); i++) {
        const char *const ids[] = {requirement_at(i)->id, NULL};
        struct selection whole = {.requirement = requirement_at(i)}, part = whole;
        const struct check_part asked = {.requirements = ids, .options = CASE_OPTIONS_ALL};
        cr_assert_eq(suite_cases(&asked.choice, take, &whole), ERR_NONE, "%s", err_message());
        cr_assert_eq(check_cases(&asked, take, &part), ERR_NONE, "%s: %s", ids[0], err_message());
        cr_expect_eq(part.names, whole.names, "%s", ids[0]);
    }
}

Test(check_cover, a_missing_pair_is_an_error_that_names_it)
{
    struct coverage coverage = {.pairs = 10, .pairs_covered = 9};
    strcpy(coverage.missing, "stage 3 and tied yes");
    cr_assert_eq(check_cover_print(&coverage), ERR_INTERNAL);
    cr_assert_not_null(strstr(err_message(), "no case has stage 3 and tied yes"));
    coverage.pairs_covered = 10;
    cr_assert_eq(check_cover_print(&coverage), ERR_NONE);
}

Test(check_cover, a_seed_draws_other_cases_and_the_same_again)
{
    static char again[sizeof output];
    cr_assert_eq(check("--list --seed 5"), 0, "%s", output);
    strcpy(again, output);
    cr_assert_eq(check("--list --seed 5"), 0);
    cr_assert_str_eq(output, again);
    cr_assert_eq(check("--list --seed 6"), 0);
    cr_assert_str_neq(output, again);
    cr_assert_eq(check("--seed -1 --list"), 2);
}

Test(check_cover, fresh_cases_are_judged_and_the_verdict_names_their_seed)
{
    cr_assert_eq(check("--seed 5 --case '@(adam-groups|clip-rough).w2.s1.*'"), 0, "%s", output);
    has("seed 5");
    has("CONFORMS");
}

// Claims that rule out most of the array's rows, so that most pairs must be in rows of their own. Returns how many
// of these cases have a parameter of varying use.
static int expect_covered(const char *varying_use)
{
    struct claims claims;
    char text[512], why[CLAIMS_TEXT_BYTES];
    snprintf(
        text, sizeof text,
        "{\"contract\": 1, \"name\": \"a\", \"version\": \"1\", \"stages\": [2], \"worlds\": [2, 3], "
        "\"precisions\": [\"fp32\", \"bf16\"], \"communication_dtypes\": [\"precision\"], "
        "\"accumulation_dtypes\": [\"precision\"], \"offload_param\": [\"none\"], \"features\": [\"groups\", \"tied\", "
        "\"clipping\", \"resume\", \"reshard\", \"accumulation\", \"lr_schedule\"%s]}",
        varying_use);
    cr_assert_eq(claims_parse("claims.json", text, strlen(text), &claims), ERR_NONE, "%s", err_message());
    struct check_setting setting = {.claims = &claims};
    struct check_run run = {0};
    const struct judge_options options = {.scaler = SCALER_DEEPSPEED, .clip = -1, .unused = -1};
    int added = 0, varying = 0;
    cr_assert_eq(judge_open(&options, &run.findings, &run.judge), ERR_NONE);
    cr_assert_eq(check_select(&setting, &run), ERR_NONE, "%s", err_message());
    cr_assert_eq(check_cover(&setting, &run), ERR_NONE, "%s", err_message());
    for (size_t i = 0; i < run.case_count; i++) {
        const struct check_case *c = run.cases[i];
        bool varies = false;
        if (strncmp(c->name, "pair-c", 6) != 0)
            continue;
        for (int k = 0; k < c->param_count; k++)
            varies |= case_use_varies(c, k);
        added++;
        varying += varies;
        cr_assert(claims_lack(&claims, c, check_other_half(&run, c), why) == 0, "%s: %s", c->name, why);
    }
    cr_assert_gt(added, 5);
    cr_assert_gt(run.coverage.pairs, 300);
    cr_assert_eq(run.coverage.pairs_covered, run.coverage.pairs, "%s", run.coverage.missing);
    check_run_free(&run);
    return varying;
}

Test(check_cover, claims_get_the_cases_that_cover_them)
{
    cr_assert_eq(expect_covered(""), 0);
    cr_assert_gt(expect_covered(", \"varying_use\""), 0);
}

// Both derive the features of a case: the adapter's base class refuses what the claims would have kept from it.
Test(check_cover, the_package_needs_of_a_case_what_claims_say_that_it_needs)
{
    if (run("command -v python3") != 0) {
        fprintf(stderr, "TEST SKIPPED: there is no python3\n");
        return;
    }
    write_text("none.json", "{\"contract\": 1, \"name\": \"a\", \"version\": \"1\", \"features\": []}");
    write_text("compare.py",
               "import json, sys\n"
               "sys.path.insert(0, '" ZG_SOURCE_DIR "/conformance/adapters')\n"
               "from zerogauge.needs import features, lack\n"
               "texts = {r['case']: r['text'] for r in map(json.loads, open('out/report.jsonl'))\n"
               "         if r['record'] == 'check' and r['absence']}\n"
               "names = json.load(open('cases/order.json'))\n"
               "for name in names:\n"
               "    case = json.load(open(f'cases/{name}/case.json'))\n"
               "    said = [n for n in texts.get(name, '').split('\"')[1::2] if n != 'reshard']\n"
               "    assert features(case) == said, (name, features(case), said)\n"
               "    key = '\"features\": ' + json.dumps(said)\n"
               "    plain = {'stages': [0, 1, 2, 3], 'worlds': [1, 2, 3, 4], 'precisions': ['fp32', 'bf16', 'fp16']}\n"
               "    tiers = {f'offload_{kind}': ['none', 'cpu', 'nvme'] for kind in ('optimizer', 'param')}\n"
               "    reason = lack(case, {**plain, **tiers})\n"
               "    assert not said or reason.endswith(key) or 'dtypes' in reason, reason\n"
               "print(len(names), 'alike')\n");
    cr_assert_eq(check("--case 'pair-*' --write-cases cases"), 0, "%s", output);
    cr_assert_eq(check("--case 'pair-*' --claims none.json --out out"), 77, "%s", output);
    cr_assert_eq(run("python3 compare.py"), 0, "%s", output);
    has(" alike");
}

// One processor judges alone, and several share a world's cases: the findings are the same, in one order. Some of these
// cases teach what an empty step does; one has no answer.
Test(check_cover, any_number_of_processors_makes_the_same_report)
{
    cpu_set_t allowed;
    int one = 0;
    cr_assert_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    while (!CPU_ISSET(one, &allowed))
        one++;
    write_text("claims.json", "{\"contract\": 1, \"name\": \"mine\", \"version\": \"1\", \"worlds\": [2, 4], "
                              "\"stages\": [0, 1, 2, 3], \"precisions\": [\"fp32\", \"bf16\"], "
                              "\"features\": [\"accumulation\", \"clipping\"], \"optional\": [\"token_mean\"]}");
    for (int i = 0; i < 2; i++) {
        char taskset[32] = "";
        if (i == 0)
            snprintf(taskset, sizeof taskset, "taskset -c %d", one);
        run("%s \"" ZG_BINARY_DIR "/zerogauge\" check --claims claims.json --case '@(tok|red)-*' --json -- sh -c "
            "'\"" ZG_BINARY_DIR "/zerogauge\" answer \"$0\" \"$1\" $2 && rm -rf \"$1\"/tok-odd.w2.s0.fp32' "
            "{cases} {answers} {world} > %d.json",
            taskset, i);
    }
    cr_assert_eq(run("grep -c '\"BROKEN\".*\"tok-odd.w2.s0.fp32\"\\|\"tok-odd.w2.s0.fp32\".*\"BROKEN\"' 0.json"), 0,
                 "%s", output);
    cr_assert_eq(
        run("for i in 0 1; do tail -n +2 $i.json | sed s/check-[A-Za-z0-9]*// > $i.txt; done; cmp 0.txt 1.txt"), 0,
        "%s", output);
}

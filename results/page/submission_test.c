// SPDX-License-Identifier: Apache-2.0
// Submissions: wrong ones, each made of a right one by one edit, are refused by the rule that they break.
#include "results/page/submission.h"

#include "results/record/record_edit_test.h"

#include <sys/stat.h>

#define PUBLISHED ZG_SOURCE_DIR "/results/published/amd-epyc-2-threads-2026-11-25.jsonl"
#define FORM                                                                                                           \
    "{\"schema\": 1, \"operator\": \"a test\", \"interconnect\": \"none\", \"GB_per_s_a_device\": 64, "                \
    "\"peak\": {\"TFLOP_per_s\": 60, \"of\": \"bf16\", \"dense\": true, \"source\": \"a data sheet, page 3\"}, "       \
    "\"commands\": [\"ci/install\", \"build/zerogauge validate --nvme-path build --engine libaio --out "               \
    "build/publish-20261125T210723Z\"], \"differs\": \"none\"}"
#define OF_GPU ZG_SOURCE_DIR "/results/page/submission_test.jsonl"

TestSuite(submission, .init = sample_folder_make, .fini = sample_folder_remove);

// Of a file of a GPU where the first word is gpu: an edit of the record, or "form PATH=VALUE", or "file NAME", or
// nothing; and what the check says.
static const struct {
    const char *edit, *says;
} wrong[] = {
    {"file extra.bin", "P-FILES: extra.bin: expected files"},
    {"no record", "P-FILES: has no result file"},
    {"no form", "P-FORM: "},
    {"form operator=7", "P-FORM: "},
    {"form prize=1", "P-FORM: "},
    {"form operator=\" - \"", "P-OPERATOR: operator: is empty"},
    {"bench:swap median=1", "P-VERIFY: "},
    {"end -", "P-VERIFY: "},
    {"run program=\"bench\"; run command.1=\"bench\"", "P-PROGRAM: "},
    {"run suite.dirty=true", "P-CLEAN: result.jsonl: was built from changed sources"},
    {"run level=\"quick\"; run program=\"measure\"", "P-LEVEL: result.jsonl: is of the level quick"},
    {"run command.2=\"--emulate=h2d=1\"; run program=\"measure\"", "P-EMULATE: "},
    {"end other_load=0.2", "P-LOAD: result.jsonl: other programs used 20 %"},
    {"form commands=[\"ci/install\"]", "P-COMMANDS: "},
    {"band:adam-update at_least=0.1; finding:adam-update -; run program=\"measure\"", "P-VERIFY: "},
    {"gpu; form peak=", "P-PEAK: result.jsonl: a GPU: expected peak"},
    {"gpu; form peak.dense=false", "P-DENSE: peak.dense: is false"},
    {"gpu; form peak.source=\"?\"", "P-PEAK: peak: expected a rate above 0 and the document"},
    {"gpu; form peak.TFLOP_per_s=0.001", "P-ABOVE: "},
    {"gpu; run machine.gpus=[{\"model\":\"A GPU\"},{\"model\":\"A GPU\"}]; form interconnect=\"\"", "P-LINK: "},
    {"band:step -; finding:step -", "P-DIFFERS: result.jsonl: the run is VALID BY OWN LIMITS"},
};
enum { WRONG_COUNT = sizeof wrong / sizeof *wrong };

static const char *text_file(const char *name, const char *text)
{
    return sample_put(name, text, strlen(text));
}

// Writes the submission of the test's folder with changes separated by "; ".
static void make(const char *changes)
{
    struct edited edited;
    json_t *form = json_loads(FORM, 0, NULL);
    char change[EDIT_BYTES];
    edit_open(strncmp(changes, "gpu", 3) == 0 ? OF_GPU : PUBLISHED, &edited);
    bool no_record = strcmp(changes, "no record") == 0, no_form = strcmp(changes, "no form") == 0;
    for (const char *at = changes, *end; *at && !no_record && !no_form; at = *end ? end + 2 : end) {
        end = strstr(at, "; ");
        end = end ? end : at + strlen(at);
        snprintf(change, sizeof change, "%.*s", (int)(end - at), at);
        char *value = strchr(change, '=');
        if (strcmp(change, "gpu") == 0)
            continue;
        if (strncmp(change, "file ", 5) == 0)
            text_file(change + 5, "?");
        else if (strncmp(change, "form ", 5) == 0 && (*value++ = '\0', true))
            edit_set(form, change + 5, value);
        else
            edit_change(&edited, change);
    }
    char *text = json_dumps(form, 0);
    if (!no_record)
        edit_write(&edited, "result.jsonl");
    if (!no_form)
        text_file("form.json", text);
    free(text);
    json_decref(form);
    edit_close(&edited);
}

// Returns the words of the check about the test's folder; the caller frees it.
static char *said(int *rc)
{
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    *rc = submission_check(sample_folder, out);
    fclose(out);
    return text;
}

Test(submission, right_ones_are_accepted)
{
    static const char *const right[] = {
        "", "form peak=", "end other_load=0.2; form other_programs=\"a compiler ran for two minutes\""};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        int rc;
        make(right[i]);
        char *text = said(&rc);
        cr_expect_eq(rc, ERR_NONE, "%s: %s", right[i], text);
        cr_expect(strstr(text, ": accepted\n"), "%s", text);
        free(text);
    }
}

Test(submission, wrong_ones_are_refused_by_the_rule_that_they_break)
{
    static char rules[1 << 16];
    FILE *file = fopen(ZG_SOURCE_DIR "/results/RULES.md", "r");
    cr_assert(file && fread(rules, 1, sizeof rules - 1, file) > 1000);
    fclose(file);
    cr_assert_geq(WRONG_COUNT, 15);
    for (size_t i = 0; i < WRONG_COUNT; i++) {
        int rc;
        char id[32];
        make(wrong[i].edit);
        char *text = said(&rc);
        cr_expect_eq(rc, ERR_CHECK, "%s: %s", wrong[i].edit, text);
        cr_expect(strstr(text, wrong[i].says), "%s: expected %s, not:\n%s", wrong[i].edit, wrong[i].says, text);
        snprintf(id, sizeof id, "| %.*s |", (int)strcspn(wrong[i].says, ":"), wrong[i].says);
        cr_expect(strstr(rules, id), "results/RULES.md has %s", id);
        free(text);
        sample_folder_remove();
        cr_assert_eq(mkdir(sample_folder, 0700), 0);
    }
}

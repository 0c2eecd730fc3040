// SPDX-License-Identifier: Apache-2.0
// The cases equal datasets/cases/vN/cases.txt byte for byte, and a second generator, written from GENERATOR.md alone,
// makes the same numbers.
#include "conformance/run/check.h"
#include "base/command_test.h"
#include "base/err.h"
#include "base/folder_test.h"

#include <fnmatch.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>

#define CASES_FOLDER ZG_SOURCE_DIR "/datasets/cases"

static void hash_file(EVP_MD_CTX *hash, const char *folder, const char *name)
{
    char path[PATH_MAX];
    size_t bytes;
    cr_assert_eq(file_join(folder, name, path), ERR_NONE);
    char *data = folder_read(path, &bytes);
    cr_assert_eq(EVP_DigestUpdate(hash, data, bytes), 1);
    free(data);
}

// SHA-256 over the files of FOLDER/NAME, one behind the other: case.json, init, and the gradients by step.
static void put_digest(FILE *out, const struct check_case *c, const char *folder)
{
    char path[PATH_MAX], name[64];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned bytes;
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    cr_assert_eq(EVP_DigestInit_ex(hash, EVP_sha256(), NULL), 1);
    cr_assert_eq(file_join(folder, c->name, path), ERR_NONE);
    hash_file(hash, path, "case.json");
    hash_file(hash, path, "init.safetensors");
    for (int step = case_first_step(c); step <= case_last_step(c); step++) {
        snprintf(name, sizeof name, "grads-%d.safetensors", step);
        hash_file(hash, path, name);
    }
    cr_assert_eq(EVP_DigestFinal_ex(hash, digest, &bytes), 1);
    EVP_MD_CTX_free(hash);
    for (unsigned i = 0; i < bytes; i++)
        fprintf(out, "%02x", digest[i]);
}

// The settings that the case has, as GENERATOR.md calls them.
static void put_settings(FILE *out, const struct check_case *c)
{
    static const char *const families[] = {"exact", "rounding", "lone"};
    const struct case_data *data = &c->data;
    fprintf(out, " %s seed=%016" PRIx64 " low=%d high=%d init=%d", families[data->family], data->seed,
            data->exponent_low, data->exponent_high, data->init_exponent);
    if (data->family == FAMILY_EXACT)
        fprintf(out, " unit=%d reach=%d", data->unit, data->reach);
    if (data->same_mean)
        fprintf(out, " same_mean spread=%d", data->spread);
    fputs(data->square_norm ? " square_norm" : "", out);
    fputs(data->paired ? " paired" : "", out);
    if (data->lead)
        fprintf(out, " lead=%d", data->lead);
    fputs(data->steps_alike ? " steps_alike" : "", out);
    for (int step = 1; step <= c->steps; step++)
        if (data->zero_steps >> (step - 1) & 1)
            fprintf(out, " zero_step=%d", step);
    for (int i = 0; i < data->poke_count; i++) {
        const struct case_poke *p = &data->pokes[i];
        fprintf(out, " poke=%d/%d/%d/%d/%zu/%a", p->step, p->micro, p->rank, p->param, p->element, (double)p->value);
    }
}

// Names of cases.
struct names {
    char (*list)[CASE_NAME_BYTES];
    size_t count;
};

static int add_name(void *context, const struct check_case *c)
{
    struct names *names = context;
    names->list = reallocarray(names->list, names->count + 1, sizeof *names->list);
    cr_assert_not_null(names->list);
    memcpy(names->list[names->count++], c->name, CASE_NAME_BYTES);
    return ERR_NONE;
}

static struct names names_of(enum suite_level level, int version)
{
    struct names names = {0};
    const struct suite_choice choice = {.level = level, .version = version};
    if (version > 0)
        cr_assert_eq(suite_cases(&choice, add_name, &names), ERR_NONE, "%s", err_message());
    return names;
}

static bool has_name(const struct names *names, const char *name)
{
    for (size_t i = 0; i < names->count; i++)
        if (strcmp(names->list[i], name) == 0)
            return true;
    return false;
}

// One line for each case of a version that no earlier one has, in the suite's order.
struct record {
    FILE *out;
    struct names quick, earlier;
    char folder[PATH_MAX];
};

static int put_case(void *context, const struct check_case *c)
{
    struct record *record = context;
    char path[PATH_MAX];
    if (has_name(&record->earlier, c->name))
        return ERR_NONE;
    cr_assert_eq(check_write_case(c, record->folder), ERR_NONE, "%s", err_message());
    put_digest(record->out, c, record->folder);
    fprintf(record->out, " %s %s", has_name(&record->quick, c->name) ? "quick" : "full", c->name);
    put_settings(record->out, c);
    fputc('\n', record->out);
    cr_assert_eq(file_join(record->folder, c->name, path), ERR_NONE);
    folder_remove(path);
    return ERR_NONE;
}

static char *suite_now(int version, size_t *bytes)
{
    char *text;
    const struct suite_choice choice = {.level = LEVEL_FULL, .version = version};
    struct record record = {.out = open_memstream(&text, bytes),
                            .quick = names_of(LEVEL_QUICK, version),
                            .earlier = version > 1 ? names_of(LEVEL_FULL, version - 1) : (struct names){0}};
    folder_make(record.folder);
    cr_assert_eq(suite_cases(&choice, put_case, &record), ERR_NONE, "%s", err_message());
    cr_assert_eq(fclose(record.out), 0);
    folder_remove(record.folder);
    free(record.quick.list);
    free(record.earlier.list);
    return text;
}

// datasets/cases/README.md says what may change; if it may, ZG_GOLDEN keeps it.
static void expect_frozen(int version)
{
    char path[PATH_MAX];
    size_t frozen_bytes, now_bytes, same = 0, line = 0;
    snprintf(path, sizeof path, "%s/v%d/cases.txt", CASES_FOLDER, version);
    char *now = suite_now(version, &now_bytes);
    if (getenv("ZG_GOLDEN"))
        folder_write(path, now, now_bytes);
    char *frozen = folder_read(path, &frozen_bytes);
    frozen[frozen_bytes] = '\0';
    while (same < now_bytes && same < frozen_bytes && now[same] == frozen[same])
        if (now[same++] == '\n')
            line = same;
    cr_assert(same == now_bytes && same == frozen_bytes,
              "\nfrozen: %.*s\nnow:    %.*s\nIf that is meant, and datasets/cases/README.md allows it, freeze what is "
              "now, and read the difference:\n    ZG_GOLDEN=1 %s/suite_frozen_test; git diff datasets/cases",
              (int)strcspn(frozen + line, "\n"), frozen + line, (int)strcspn(now + line, "\n"), now + line,
              ZG_BINARY_DIR);
    free(frozen);
    free(now);
}

Test(suite_frozen, cases_are_those_that_were_frozen)
{
    expect_frozen(1);
}

Test(suite_frozen, cases_of_the_second_version_are_those_that_were_frozen)
{
    expect_frozen(2);
}

Test(suite_frozen, cases_of_the_third_version_are_those_that_were_frozen)
{
    expect_frozen(3);
}

static char output[1 << 16];

static bool has_python(void)
{
    if (command_run("command -v python3", output, sizeof output) == 0)
        return true;
    fprintf(stderr, "TEST SKIPPED: there is no python3 for the second generator\n");
    return false;
}

static void write_cases(const char *pattern, const char *folder)
{
    char command[3 * PATH_MAX];
    snprintf(command, sizeof command, "%s/zerogauge check --level full --write-cases %s --case '%s' 2>&1",
             ZG_BINARY_DIR, folder, pattern);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s", output);
}

// True if regenerate.py makes the same numbers as the cases in a folder.
static bool second_generator_agrees(const char *folder)
{
    char command[3 * PATH_MAX];
    snprintf(command, sizeof command, "python3 -B %s/regenerate.py %s 2>&1", CASES_FOLDER, folder);
    return command_run(command, output, sizeof output) == 0;
}

// A few cases that have every family, every setting and every precision among them.
static const char *const regenerated[] = {
    "adam-basic.w2.s1.*",
    "part-tied.w2.s1.*",
    "part-varying.w2.s1.fp32.micro",
    "part-world.w7.s1.bf16",
    "adam-zero.w2.s1.bf16",
    "red-rounding.w3.s1.*",
    "red-communication.w2.s1.*",
    "acc-trap.w2.s1.bf16",
    "mp-copy.w2.s1.fp16",
    "mp-nan.w2.s1.fp16",
    "clip-above.w2.s1.fp32",
    "ckpt-same.w2.s1.fp16.*",
    "pair-00*",
    "hsdp-exact.w4.s1.*",
    "tp-sequence.w4.s1.fp32.t4",
    "seq-exact.w4.s1.fp32.*",
    "seq-mesh.w8.s1.fp32.*",
    "ep-exact.w8.s1.*t2e2",
    "pp-ckpt.w4.s1.fp32.*p4*",
};
enum { REGENERATED_COUNT = sizeof regenerated / sizeof *regenerated };

Test(suite_frozen, a_second_generator_makes_the_same_numbers)
{
    char folder[PATH_MAX], path[PATH_MAX], name[16];
    if (!has_python())
        return;
    folder_make(folder);
    for (int i = 0; i < REGENERATED_COUNT; i++) {
        snprintf(name, sizeof name, "%d", i);
        cr_assert_eq(file_join(folder, name, path), ERR_NONE);
        write_cases(regenerated[i], path);
        cr_assert(second_generator_agrees(path), "%s: %s", regenerated[i], output);
    }
    folder_remove(folder);
}

static bool is_regenerated(const char *name)
{
    for (int i = 0; i < REGENERATED_COUNT; i++)
        if (fnmatch(regenerated[i], name, 0) == 0)
            return true;
    return false;
}

// The words of v1/cases.txt behind a name, without their values: what is known of them, and what has been made again.
struct setting_words {
    char known[32][32];
    bool made[32];
    int count;
};

static void add_word(struct setting_words *words, const char *word, bool made)
{
    int i = 0;
    while (i < words->count && strcmp(words->known[i], word) != 0)
        i++;
    cr_assert_lt(i, 32);
    snprintf(words->known[i], sizeof words->known[i], "%s", word);
    words->count = i == words->count ? i + 1 : words->count;
    words->made[i] |= made;
}

Test(suite_frozen, the_second_generator_is_asked_for_every_setting)
{
    struct setting_words words = {0};
    size_t bytes;
    char *text = folder_read(CASES_FOLDER "/v1/cases.txt", &bytes), *rest = text, *line;
    text[bytes] = '\0';
    while ((line = strsep(&rest, "\n")) && *line) {
        char *word = strsep(&line, " "), *name = (strsep(&line, " "), strsep(&line, " "));
        cr_assert_eq(strlen(word), 64, "%s", word);
        bool made = is_regenerated(name);
        while ((word = strsep(&line, " ")))
            add_word(&words, strtok(word, "="), made);
    }
    free(text);
    cr_assert_geq(words.count, 15);
    for (int i = 0; i < words.count; i++)
        cr_expect(words.made[i], "no case with \"%s\"", words.known[i]);
}

Test(suite_frozen, the_second_generator_names_a_number_that_differs)
{
    char folder[PATH_MAX], cases[PATH_MAX], path[PATH_MAX];
    size_t bytes;
    if (!has_python())
        return;
    folder_make(folder);
    cr_assert_eq(file_join(folder, "cases", cases), ERR_NONE);
    write_cases("adam-basic.w2.s1.bf16", cases);
    cr_assert_eq(file_join(cases, "adam-basic.w2.s1.bf16/grads-2.safetensors", path), ERR_NONE);
    char *data = folder_read(path, &bytes);
    data[bytes - 1] ^= 1;
    folder_write(path, data, bytes);
    free(data);
    cr_assert_not(second_generator_agrees(cases));
    cr_assert_not_null(strstr(output, "its SHA-256 is "), "%s", output);
    cr_assert_not_null(strstr(output, "grads-2.safetensors: m0/r1/t"), "%s", output);
    cr_assert_not_null(strstr(output, "1 cases differ"), "%s", output);
    folder_remove(folder);
}

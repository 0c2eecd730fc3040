// SPDX-License-Identifier: Apache-2.0
// Configurations that must be refused: the cases of datasets/configs_bad.txt, whose head describes their form.
#include "ref/config/config.h"

#include "ref/config/config_keys.h"
#include "base/err.h"
#include "base/folder_test.h"
#include "base/json.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

static const struct config_options OPTIONS = {.world = 2};

struct bad_case {
    char *name, *text, *message;
    size_t bytes;  // of the text
};

// Replaces each {{00}} by its byte; returns the length that is left.
static size_t insert_bytes(char *text)
{
    size_t length = 0;
    for (const char *at = text; *at; length++) {
        int used = 0;
        unsigned byte;
        bool escaped = sscanf(at, "{{%2x}}%n", &byte, &used) == 1 && used == 6;
        text[length] = escaped ? (char)byte : *at;
        at += escaped ? 6 : 1;
    }
    return length;
}

// The first line from `text` on that begins with `mark`, or null.
static char *line_of(char *text, const char *mark)
{
    while (text && strncmp(text, mark, strlen(mark)) != 0)
        text = (text = strchr(text, '\n')) ? text + 1 : NULL;
    return text;
}

// Cuts the next case off *rest; false where there is none.
static bool next_case(char **rest, struct bad_case *out)
{
    char *head = line_of(*rest, "== ");
    if (!head)
        return false;
    out->name = head + strlen("== ");
    out->text = strchr(head, '\n') + 1;
    char *message = line_of(out->text, "=> "), *next = line_of(out->text, "== ");
    cr_assert(message && (!next || message < next), "%.*s has no expected message", (int)(out->text - head), head);
    out->message = message + strlen("=> ");
    *rest = strchr(out->message, '\n') + 1;
    (*rest)[-1] = out->text[-1] = *message = '\0';
    out->bytes = insert_bytes(out->text);
    return true;
}

static void expect_message(const char *folder, const struct bad_case *bad)
{
    char file[2 * PATH_MAX], expected[3 * PATH_MAX];
    struct config config;
    snprintf(file, sizeof file, "%s/%s.json", folder, bad->name);
    snprintf(expected, sizeof expected, "%s:%s", file, bad->message);
    folder_write(file, bad->text, bad->bytes);
    size_t length = strlen(expected);
    bool is_open = length > 4 && strcmp(expected + length - 4, " ...") == 0;
    int code = config_load_file(file, &OPTIONS, &config, NULL);
    cr_expect_eq(code, ERR_USAGE, "%s: code %d", bad->name, code);
    const char *message = code == ERR_NONE ? "" : err_message();
    cr_expect_eq(strncmp(message, expected, is_open ? length - 3 : length + 1), 0, "%s\nsays     %s\nexpected %s",
                 bad->name, message, expected);
}

Test(config_bad, every_bad_configuration_is_refused_with_its_message)
{
    char folder[PATH_MAX];
    size_t bytes;
    char *table = folder_read(ZG_SOURCE_DIR "/datasets/configs_bad.txt", &bytes), *rest = table;
    table[bytes] = '\0';
    cr_assert_eq(strlen(table), bytes);
    struct bad_case bad;
    int count = 0;
    folder_make(folder);
    for (; next_case(&rest, &bad); count++)
        expect_message(folder, &bad);
    folder_remove(folder);
    free(table);
    cr_expect_geq(count, 149);
}

static void expect_file_refused(const char *file, const char *message)
{
    struct config config;
    cr_expect_eq(config_load_file(file, &OPTIONS, &config, NULL), ERR_USAGE, "%s", file);
    cr_expect_str_eq(err_message(), message);
}

Test(config_bad, an_unreadable_file_is_refused)
{
    expect_file_refused("/nonexistent/x.json", "/nonexistent/x.json: cannot be opened: No such file or directory");
    expect_file_refused("/", "/: is not a regular file");
    expect_file_refused("/dev/null", "/dev/null: is not a regular file");
    expect_file_refused("/dev/zero", "/dev/zero: is not a regular file");
}

Test(config_bad, a_world_without_ranks_is_refused)
{
    struct config config;
    struct config_options options = {.world = 0};
    cr_expect_eq(config_load_preset("zero0", &options, &config, NULL), ERR_USAGE);
    cr_expect_str_eq(err_message(), "the world is 0 ranks, expected at least 1");
}

Test(config_bad, a_batch_beyond_64_bits_is_refused)
{
    struct config config;
    struct config_options options = {.world = 64};  // 2^29 x 2^29 x 2^6 = 2^64
    const char *text = "{\"train_micro_batch_size_per_gpu\": 536870912, \"gradient_accumulation_steps\": 536870912}";
    cr_expect_eq(config_load_text("x", text, strlen(text), &options, &config, NULL), ERR_USAGE);
    cr_expect(strstr(err_message(), "the product is too large"), "%s", err_message());
}

Test(config_bad, a_key_of_half_a_megabyte_makes_a_short_message)
{
    char *text = malloc(JSON_TEXT_BYTES_MAX);
    memset(text, 'k', 500000);
    memcpy(text, "{\"", 2);
    strcpy(text + 500000, "\": 1}");
    struct config config;
    cr_expect_eq(config_load_text("x", text, strlen(text), &OPTIONS, &config, NULL), ERR_USAGE);
    cr_expect_lt(strlen(err_message()), 800u);
    cr_expect(strstr(err_message(), "kkk: unknown key; the nearest known key is"), "%s", err_message());
    memset(text, 's', 500000);
    memcpy(text, "{\"optimizer\": {\"type\": \"", 24);
    strcpy(text + 500000, "\"}, \"train_batch_size\": 2}");
    cr_expect_eq(config_load_text("x", text, strlen(text), &OPTIONS, &config, NULL), ERR_USAGE);
    cr_expect_lt(strlen(err_message()), 300u);
    cr_expect(strstr(err_message(), "x:1: optimizer.type: is \"sss"), "%s", err_message());
    free(text);
}

Test(config_bad, a_hint_names_the_intended_key)
{
    const struct {
        const char *path, *hint;
    } CASES[] = {
        {"zero_optimization.stage3_max_live_paramters", "did you mean \"stage3_max_live_parameters\"?"},
        {"zero_optimization.STAGE", "did you mean \"stage\"?"},
        {"zero_optimization.satge", "did you mean \"stage\"?"},
        {"zero_optimisation", "did you mean \"zero_optimization\"?"},
        {"train_micro_batch_size", "did you mean \"train_batch_size\"?"},
        {"optimizer.lr", "did you mean \"optimizer.params.lr\"?"},
        {"fp16.gradient_clipping", "did you mean the top-level key \"gradient_clipping\"?"},
        {"optimizer.params.beta", "did you mean \"betas\"?"},
        {"bf16.zzz", "the nearest known key is \"enabled\""},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char hint[CONFIG_HINT_BYTES];
        cr_expect_str_eq(config_key_hint(hint, CASES[i].path), CASES[i].hint, "%s: %s", CASES[i].path, hint);
    }
}

Test(config_bad, the_table_has_unique_keys_and_aliases_with_targets)
{
    const struct config_key *key;
    for (size_t i = 0; (key = config_key_at(i)) != NULL; i++) {
        cr_expect_eq(config_key_find(key->path), key, "%s is there twice", key->path);
        if (key->use == KEY_ALIAS)
            cr_expect(config_key_find(key->target) && config_key_find(key->target)->use != KEY_ALIAS, "%s", key->path);
        if (key->use == KEY_FIXED)
            cr_expect(key->only && key->why, "%s", key->path);
        if (key->use == KEY_USED && (key->type == CONFIG_INTEGER || key->type == CONFIG_NUMBER))
            cr_expect_lt(key->min, key->max, "%s", key->path);
        const char *dot = strrchr(key->path, '.');
        char parent[CONFIG_PATH_BYTES] = "";
        snprintf(parent, sizeof parent, "%.*s", dot ? (int)(dot - key->path) : 0, key->path);
        cr_expect(!dot || config_key_find(parent), "%s has no section", key->path);
    }
}

// A small generator: every run makes the same changes.
static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

// Loads arbitrary text and expects either a configuration that prints and loads again or a usage error of one line.
static void expect_an_end(const char *text, size_t bytes)
{
    struct config config;
    struct config_notes notes;
    int code = config_load_text("x", text, bytes, &OPTIONS, &config, &notes);
    if (code != ERR_NONE) {
        cr_assert_eq(code, ERR_USAGE);
        cr_assert(err_message()[0] == 'x' && !strchr(err_message(), '\n'), "%s", err_message());
        return;
    }
    char *printed;
    size_t printed_bytes;
    FILE *file = open_memstream(&printed, &printed_bytes);
    config_print(&config, file);
    fclose(file);
    cr_assert_eq(config_load_text("y", printed, printed_bytes, &OPTIONS, &config, &notes), ERR_NONE, "%s\n%s",
                 err_message(), printed);
    free(printed);
}

Test(config_bad, random_damage_gives_a_message_or_a_configuration)
{
    char pieces[] = "{ } [ ] , : \" null true \"auto\" -1 0 1e308 9223372036854775807 1.5 \\u0000 \\ud800 \xff \n "
                    "\"stage\" \"fp16\" \"enabled\":true \"scheduler\" \"params\" . \"device\" \"cpu\" \"nvme\" "
                    "\"none\" \"nvme_path\" false \"\" [\"/x\"]";
    const char *PIECES[33];
    char *rest = pieces;
    for (size_t i = 0; i < sizeof PIECES / sizeof *PIECES; i++)
        PIECES[i] = strsep(&rest, " ");
    static const char SEED[] =
        "{\"train_batch_size\": 8, \"fp16\": {\"enabled\": true, \"loss_scale\": 0, \"hysteresis\": 2}, "
        "\"zero_optimization\": {\"stage\": 3, \"stage3_max_live_parameters\": 1e9, \"offload_optimizer\": "
        "{\"device\": \"nvme\", \"nvme_path\": [\"/a\", \"/b\"], \"buffer_count\": 5}, \"cpu_offload_param\": true}, "
        "\"aio\": {\"block_size\": 8192, \"thread_count\": 2}, \"zerogauge\": {\"delayed_update\": {\"start_step\": "
        "4}, \"offload_gradient\": {\"device\": \"cpu\"}, \"activation_checkpointing\": {\"enabled\": true, "
        "\"device\": \"cpu\"}, \"tiling\": {\"factor\": 2}, \"partitioning\": \"owner_broadcast\"}, \"optimizer\": "
        "{\"type\": \"AdamW\", \"params\": {\"lr\": 0.001, \"betas\": [0.9, 0.95]}}, \"scheduler\": {\"type\": "
        "\"WarmupDecayLR\", \"params\": {\"total_num_steps\": 10}}, \"amp\": {\"x\": [{}, {\"y\": {}}]}, "
        "\"gradient_clipping\": 1.0}";
    uint32_t state = 1;
    for (int round = 0; round < 20000; round++) {
        char text[2 * sizeof SEED];
        size_t bytes = sizeof SEED - 1;
        memcpy(text, SEED, bytes);
        for (uint32_t change = 0; change <= next_random(&state) % 3; change++) {
            const char *piece = PIECES[next_random(&state) % (sizeof PIECES / sizeof *PIECES)];
            size_t at = next_random(&state) % bytes, cut = next_random(&state) % 12;
            cut = cut < bytes - at ? cut : bytes - at;
            memmove(text + at + strlen(piece), text + at + cut, bytes - at - cut);
            memcpy(text + at, piece, strlen(piece));
            bytes = bytes - cut + strlen(piece);
        }
        expect_an_end(text, bytes);
    }
}

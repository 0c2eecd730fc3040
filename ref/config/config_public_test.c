// SPDX-License-Identifier: Apache-2.0
// Configurations as public projects write them, each with its reading or its refusal: datasets/configs_public.txt,
// whose head describes its form.
#include "ref/config/config.h"

#include "base/err.h"
#include "base/folder_test.h"

#include <criterion/criterion.h>

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_MAX = 400, TEXT_BYTES = 8192, READING_BYTES = 16384, WIDTH = 118 };

// A reading is a list of words, each a key with its value or a note, with a blank before and behind each.
struct public_case {
    char name[64], text[TEXT_BYTES], *reading;
    const char *expected;  // "+ WORDS", "- WORDS" in lines, or "= the same", or "=> MESSAGE"
    struct config_options options;
    char dtype[8];
    const struct public_case *base;  // null: an empty configuration
};

static struct public_case cases[CASES_MAX];
static size_t case_count;

static void add_word(char *reading, const char *form, const char *key, const char *value)
{
    size_t used = strlen(reading), start = used;
    used += (size_t)snprintf(reading + used, READING_BYTES - used, form, key, value);
    cr_assert_lt(used, READING_BYTES - 1);
    for (size_t i = start; i < used; i++)
        if (isspace((unsigned char)reading[i]))
            reading[i] = '_';
    strcpy(reading + used, " ");
}

// The section's long name is in most words.
static const char *short_key(const char *key, char out[256])
{
    static const char section[] = "zero_optimization.";
    bool is_in = strncmp(key, section, sizeof section - 1) == 0;
    snprintf(out, 256, "%s%s", is_in ? "zero." : "", is_in ? key + sizeof section - 1 : key);
    return out;
}

static void add_values(char *reading, json_t *object, const char *path)
{
    const char *name;
    json_t *value;
    json_object_foreach (object, name, value) {
        char key[256], shown[256];
        snprintf(key, sizeof key, "%s%s%s", path, *path ? "." : "", name);
        if (json_is_object(value)) {
            add_values(reading, value, key);
            continue;
        }
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
        add_word(reading, "%s=%s", short_key(key, shown), text);
        free(text);
    }
}

static void add_notes(char *reading, const struct config_notes *notes)
{
    static const char *const forms[] = {
        [CONFIG_IGNORED] = "ignored:%s", [CONFIG_AUTO] = "auto:%s",     [CONFIG_DTYPE] = "auto:%s:%s",
        [CONFIG_OLD] = "old:%s:%s",      [CONFIG_RAISED] = "raised:%s", [CONFIG_FOREIGN] = "%s:%s"};
    char shown[256];
    for (size_t i = 0; i < notes->count; i++)
        add_word(reading, forms[notes->notes[i].kind], short_key(notes->notes[i].key, shown), notes->notes[i].value);
}

// plan: what plans alone have, or null.
static char *reading_of(const struct config *config, const struct config_notes *notes, json_t *plan)
{
    char *reading = calloc(1, READING_BYTES);
    json_t *json = config_json(config);
    strcpy(reading, " ");
    add_values(reading, plan, "plan");
    add_values(reading, json, "");
    add_notes(reading, notes);
    json_decref(json);
    json_decref(plan);
    return reading;
}

// Appends the words of one list that the other lacks; of those that are left out only the key counts.
static void add_difference(char *out, const char *of, const char *than, bool by_key)
{
    for (const char *word = of + 1; *word; word = strchr(word, ' ') + 1) {
        size_t bytes = (size_t)(strchr(word, ' ') - word), key_bytes = strcspn(word, "= ");
        char found[READING_BYTES];
        snprintf(found, sizeof found, " %.*s", (int)(by_key ? key_bytes : bytes), word);
        strcat(found, by_key && word[key_bytes] == '=' ? "=" : " ");
        if (!strstr(than, found))
            sprintf(out + strlen(out), "%.*s ", (int)(by_key ? key_bytes : bytes), word);
    }
}

// Joins the words of the expected lines that begin with a mark.
static void join_expected(char *out, const char *lines, char mark)
{
    for (; *lines; lines = strchr(lines, '\n') + 1)
        if (*lines == mark)
            for (const char *at = lines + 2; *at != '\n'; at += strspn(at, " ")) {
                size_t bytes = strcspn(at, " \n");
                sprintf(out + strlen(out), "%.*s ", (int)bytes, at);
                at += bytes;
            }
}

// The words in lines as the file has them.
static char *in_lines(const char *words, char mark)
{
    char *out = calloc(2, READING_BYTES);
    size_t column = WIDTH;
    for (const char *at = words; *at; at = strchr(at, ' ') + 1) {
        size_t bytes = (size_t)(strchr(at, ' ') - at);
        bool breaks = column + 1 + bytes > WIDTH;
        column = breaks ? 2 + bytes : column + 1 + bytes;
        if (breaks)
            sprintf(out + strlen(out), "%s%c", *out ? "\n" : "", mark);
        sprintf(out + strlen(out), " %.*s", (int)bytes, at);
    }
    return out;
}

static void expect_words(const struct public_case *c, const char *words, char mark)
{
    char expected[READING_BYTES] = "";
    join_expected(expected, c->expected, mark);
    if (strcmp(words, expected) == 0)
        return;
    char *actual = in_lines(words, mark), *wanted = in_lines(expected, mark);
    cr_expect_fail("%s is read as\n%s\nexpected\n%s", c->name, actual, wanted);
    free(actual);
    free(wanted);
}

static void expect_reading(struct public_case *c, const struct config *config, const struct config_notes *notes,
                           json_t *plan)
{
    static const char EMPTY[] = "{\"train_micro_batch_size_per_gpu\": 1}";
    static struct config_notes no_notes;
    struct config empty;
    struct config_options plain = {.world = c->options.world};
    char words[READING_BYTES] = "", *base = c->base && c->base->reading ? strdup(c->base->reading) : NULL;
    if (!base) {
        cr_assert_eq(config_load_text("empty", EMPTY, sizeof EMPTY - 1, &plain, &empty, &no_notes), ERR_NONE);
        base = reading_of(&empty, &no_notes, NULL);
    }
    c->reading = reading_of(config, notes, plan);
    add_difference(words, c->reading, base, false);
    expect_words(c, words, '+');
    words[0] = '\0';
    add_difference(words, base, c->reading, true);
    expect_words(c, words, '-');
    free(base);
}

// Messages name files with the folder of this run.
static void copy_without(char *out, size_t room, const char *message, const char *folder)
{
    size_t bytes = strlen(folder);
    for (const char *found; (found = strstr(message, folder)); message = found + bytes + 1) {
        int used = snprintf(out, room, "%.*s", (int)(found - message), message);
        out += used;
        room -= (size_t)used;
    }
    snprintf(out, room, "%s", message);
}

static void check_case(const char *folder, struct public_case *c)
{
    static struct config config;
    static struct config_notes notes;
    char file[2 * PATH_MAX], expected[1024], message[1024] = "";
    json_t *plan = NULL;
    snprintf(file, sizeof file, "%s/%s", folder, c->name);
    folder_write(file, c->text, strlen(c->text));
    int code = config_load_file(file, &c->options, &config, &notes);
    if (code == ERR_NONE && c->options.plans)
        code = config_plan_words(file, &plan);
    if (code != ERR_NONE)
        copy_without(message, sizeof message, err_message(), folder);
    if (strncmp(c->expected, "=> ", 3) != 0) {
        cr_expect_eq(code, ERR_NONE, "%s is refused: %s", c->name, message);
        if (code == ERR_NONE)
            expect_reading(c, &config, &notes, plan);
        return;
    }
    cr_expect_eq(code, ERR_USAGE, "%s: code %d", c->name, code);
    size_t length =
        (size_t)snprintf(expected, sizeof expected, "%.*s", (int)strcspn(c->expected + 3, "\n"), c->expected + 3);
    bool is_open = strcmp(expected + length - 4, " ...") == 0;
    cr_expect_eq(strncmp(message, expected, is_open ? length - 3 : length + 1), 0, "%s\nsays\n=> %s\nexpected\n=> %s",
                 c->name, message, expected);
}

static const struct public_case *find_case(const char *name)
{
    for (size_t i = 0; i < case_count; i++)
        if (strcmp(cases[i].name, name) == 0)
            return &cases[i];
    cr_assert_fail("no case %s above", name);
    return NULL;
}

// NAME [from NAME] [plan] [world=N] [steps=N] [width=N] [dtype=NAME]
static void read_head(struct public_case *c, const char *line)
{
    char head[256], *rest = head, *word;
    snprintf(head, sizeof head, "%.*s", (int)strcspn(line, "\n"), line);
    snprintf(c->name, sizeof c->name, "%s", strsep(&rest, " "));
    c->options.world = 8;
    while ((word = strsep(&rest, " "))) {
        unsigned long number = strchr(word, '=') ? strtoul(strchr(word, '=') + 1, NULL, 10) : 0;
        if (strcmp(word, "from") == 0) {
            c->base = find_case(strsep(&rest, " "));
            c->options = c->base->options;
        } else if (strcmp(word, "plan") == 0)
            c->options.plans = true;
        else if (strncmp(word, "world=", 6) == 0)
            c->options.world = (int)number;
        else if (strncmp(word, "steps=", 6) == 0)
            c->options.steps = number;
        else if (strncmp(word, "width=", 6) == 0)
            c->options.width = number;
        else if (strncmp(word, "dtype=", 6) == 0)
            c->options.dtype = strcpy(c->dtype, word + 6);
        else
            cr_assert_fail("%s: %s", c->name, word);
    }
}

// Replaces in the base's text, once for each line `OLD >> NEW`.
static void derive(struct public_case *c, const char *lines, size_t bytes)
{
    strcpy(c->text, c->base->text);
    for (const char *line = lines; line < lines + bytes; line = strchr(line, '\n') + 1) {
        char change[1024], changed[TEXT_BYTES];
        snprintf(change, sizeof change, "%.*s", (int)strcspn(line, "\n"), line);
        char *middle = strstr(change, " >>");
        cr_assert(middle, "%s: %s is no change", c->name, change);
        *middle = '\0';
        const char *to = middle[3] ? middle + 4 : "", *at = strstr(c->text, change);
        cr_assert(at, "%s: nothing is %s", c->name, change);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - c->text), c->text, to, at + strlen(change));
        strcpy(c->text, changed);
    }
}

static const char *line_of(const char *text, const char *marks)
{
    while (*text && !(strchr(marks, text[0]) && text[1] && strchr("=> ", text[1])))
        text = strchr(text, '\n') + 1;
    return text;
}

Test(config_public, every_configuration_of_a_public_kind_is_read_or_refused_as_expected)
{
    char folder[PATH_MAX];
    size_t bytes;
    char *table = folder_read(ZG_SOURCE_DIR "/datasets/configs_public.txt", &bytes);
    table[bytes] = '\0';
    folder_make(folder);
    for (const char *at = strstr(table, "\n== "); at; at = strstr(at, "\n== ")) {
        cr_assert_lt(case_count, (size_t)CASES_MAX);
        struct public_case *c = &cases[case_count];
        read_head(c, at + strlen("\n== "));
        const char *text = strchr(at + 1, '\n') + 1;
        c->expected = line_of(text, "+-=");
        cr_assert(c->expected > text || c->base, "%s has no text", c->name);
        at = strstr(c->expected, "\n== ");
        if (c->base)
            derive(c, text, (size_t)(c->expected - text));
        else
            snprintf(c->text, sizeof c->text, "%.*s", (int)(c->expected - text), text);
        case_count++;
        if (at)
            table[at - table + 1] = '\0';  // the end of the expected lines
        check_case(folder, c);
        if (!at)
            break;
        table[at - table + 1] = '=';
    }
    folder_remove(folder);
    free(table);
    for (size_t i = 0; i < case_count; i++)
        free(cases[i].reading);
    cr_expect_geq(case_count, 283u);
}

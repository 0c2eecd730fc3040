// SPDX-License-Identifier: Apache-2.0

#include "base/help.h"
#include "bench/table/benchmarks.h"
#include "cli/commands.h"
#include "conformance/run/check.h"
#include "conformance/spec/requirement.h"
#include "plan/planner/plan_machine.h"
#include "plan/planner/plan_model.h"
#include "ref/recipe/recipe.h"
#include "ref/config/config.h"
#include "ref/model/names/model_find.h"

#include <ctype.h>
#include <string.h>

// The word to complete, the word before it, and the text to print in front of each candidate ("--preset=").
static struct {
    const char *word, *before, *head;
    size_t head_bytes;
} asked;

static void offer(const char *name, size_t bytes)
{
    if (strncmp(name, asked.word, strlen(asked.word)) == 0 && strlen(asked.word) <= bytes)
        printf("%.*s%.*s\n", (int)asked.head_bytes, asked.head ? asked.head : "", (int)bytes, name);
}

static void offer_name(const char *name)
{
    offer(name, strlen(name));
}

static void offer_presets(void)
{
    for (size_t i = 0; config_preset_name(i); i++)
        offer_name(config_preset_name(i));
}

static void offer_models(void)
{
    for (int i = 0; model_name(i); i++)
        offer_name(model_name(i));
}

static void offer_shapes(void)
{
    for (size_t i = 0; plan_model_name(i); i++)
        offer_name(plan_model_name(i));
}

static void offer_machines(void)
{
    for (size_t i = 0; plan_machine_name(i); i++)
        offer_name(plan_machine_name(i));
}

static void offer_recipes(void)
{
    for (int i = 0; recipe_at(i); i++)
        offer_name(recipe_name(recipe_at(i)));
}

static int offer_case(void *context, const struct check_case *c)
{
    (void)context;
    offer_name(c->name);
    return 0;
}

static void offer_cases(void)
{
    const struct check_part part = {.choice = {.level = LEVEL_FULL}, .options = CASE_OPTIONS_ALL};
    check_cases(&part, offer_case, NULL);
}

static void offer_requirements(void)
{
    for (int i = 0; requirement_at(i); i++)
        offer_name(requirement_at(i)->id);
}

// The names that replace the placeholders in the arguments of options.
static const struct {
    const char *word;
    void (*offer)(void);
} kinds[] = {
    {"PRESET", offer_presets},           {"MODEL", offer_models},   {"SHAPE", offer_shapes},
    {"MACHINE", offer_machines},         {"RECIPE", offer_recipes}, {"CASE", offer_cases},
    {"REQUIREMENT", offer_requirements},
};

// "cpu|cuda" offers both words, "MODEL|FILE" the names of models.
static void offer_argument(const char *argument)
{
    for (const char *word = argument; *word;) {
        size_t bytes = strcspn(word, "|"), letters = strcspn(word, ",|");
        size_t small = strcspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (islower((unsigned char)*word) && small >= bytes)
            offer(word, bytes);
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            if (strlen(kinds[i].word) == letters && strncmp(word, kinds[i].word, letters) == 0)
                kinds[i].offer();
        word += bytes + (word[bytes] == '|');
    }
}

static bool is_option(const char *word, const struct poptOption *option)
{
    return word[0] == '-' && ((word[1] == '-' && strcmp(word + 2, option->longName) == 0) ||
                              (option->shortName && word[1] == option->shortName && word[2] == '\0'));
}

static void find_value(void *context, const char *group, const struct poptOption *option)
{
    (void)group;
    if (option->argDescrip && is_option(asked.before, option))
        *(const char **)context = option->argDescrip;
}

static void offer_option(void *context, const char *group, const struct poptOption *option)
{
    char name[64];
    (void)context, (void)group;
    snprintf(name, sizeof name, "--%s", option->longName);
    offer_name(name);
}

// Offers values if the previous word is an option that takes one, and options otherwise; a help_writer.
static void complete_word(const char *command, const struct poptOption *options, const struct help *help)
{
    const char *argument = NULL;
    (void)command, (void)help;
    help_visit_options(options, find_value, &argument);
    if (argument)
        offer_argument(argument);
    else if (asked.word[0] == '-' && !asked.head)
        help_visit_options(options, offer_option, NULL);
}

static void complete_command(bool with_topics)
{
    for (const struct command *command = commands; command->name; command++)
        offer_name(command->name);
    offer_name("help");
    offer_name("version");
    if (with_topics) {
        offer_name("presets");
        offer_name("models");
    }
}

static void complete_benchmark(void)
{
    for (size_t i = 0; bench_at(i); i++)
        offer_name(bench_at(i)->name);
}

// Sets `asked`. A shell passes --preset=zero1 as one word or as three.
static void find_words(const char *const *words, int count)
{
    static char option[64];
    const char *word = words[count - 1], *equals = word[0] == '-' ? strchr(word, '=') : NULL;
    asked.word = word;
    asked.before = count > 1 ? words[count - 2] : "";
    if (equals) {
        snprintf(option, sizeof option, "%.*s", (int)(equals - word), word);
        asked.before = option;
        asked.word = equals + 1;
        asked.head = word;
        asked.head_bytes = (size_t)(equals + 1 - word);
    } else if (strcmp(word, "=") == 0) {
        asked.word = "";
    } else if (strcmp(asked.before, "=") == 0 && count > 2) {
        asked.before = words[count - 3];
    }
}

int complete_print(const char *const *words, int count)
{
    if (count < 1)
        return 2;
    for (int i = 0; i < count - 1; i++)
        if (strcmp(words[i], "--") == 0)
            return 0;
    find_words(words, count);
    bool helps = strcmp(words[0], "help") == 0;
    const struct command *command = count > 1 + helps ? command_find(words[helps]) : NULL;
    if (count == 1 + helps)
        complete_command(helps);
    else if (command && command_has_benchmarks(command) && count == 2 + helps)
        complete_benchmark();
    if (!command || helps || (command_has_benchmarks(command) && count < 3))
        return 0;
    help_write = complete_word;
    return command_help(command, command_has_benchmarks(command) ? words[1] : NULL);
}

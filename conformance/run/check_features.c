// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/check_features.h"

#include "base/array.h"
#include "base/err.h"
#include "conformance/cases/case_mesh.h"
#include "conformance/claims/claims.h"
#include "conformance/suite/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Features that contain another one.
static const struct {
    enum claims_feature whole, part;
} contained[] = {{FEATURE_STATIC_LOSS_SCALE, FEATURE_OVERFLOW_CHECK},
                 {FEATURE_DYNAMIC_LOSS_SCALE, FEATURE_OVERFLOW_CHECK},
                 {FEATURE_RESHARD, FEATURE_RESUME},
                 {FEATURE_WEIGHTS_ONLY, FEATURE_RESUME}};
enum { CONTAINED_COUNT = sizeof contained / sizeof *contained };

static uint32_t with_parts(uint32_t features)
{
    for (int i = 0; i < CONTAINED_COUNT; i++)
        if (features >> contained[i].whole & 1)
            features |= 1u << contained[i].part;
    return features;
}

static uint32_t without_parts(uint32_t features)
{
    uint32_t parts = 0;
    for (int i = 0; i < CONTAINED_COUNT; i++)
        if (features >> contained[i].whole & 1)
            parts |= 1u << contained[i].part;
    return features & ~parts;
}

// Each case's features with their parts.
struct entry {
    char name[CASE_NAME_BYTES];
    uint32_t features;
    int world;
};

struct entries {
    struct entry *list;
    size_t count, room;
};

static int add_entry(void *context, const struct check_case *c)
{
    struct entries *entries = context;
    if (case_options(c) != 0)
        return ERR_NONE;
    TRY(array_grow(&entries->list, &entries->room, entries->count, sizeof *entries->list, "cases"));
    struct entry *entry = &entries->list[entries->count++];
    entry->features = with_parts(claims_features(c));
    entry->world = c->world;
    memcpy(entry->name, c->name, sizeof entry->name);
    // The saving half comes right before the one that resumes.
    if (c->phase == PHASE_RESUME && entry[-1].world != c->world)
        entry[-1].features = entry->features |= 1u << FEATURE_RESHARD;
    return ERR_NONE;
}

static void fill_row(const struct entries *entries, struct feature_row *row)
{
    uint32_t all = 0, common = UINT32_MAX;
    for (size_t i = 0; i < entries->count; i++)
        if (requirement_covers(row->requirement, entries->list[i].name)) {
            all |= without_parts(entries->list[i].features);
            common &= entries->list[i].features;
        }
    row->common = all ? without_parts(common) : 0;
    for (size_t i = 0; i < entries->count; i++) {
        if (!requirement_covers(row->requirement, entries->list[i].name))
            continue;
        uint32_t more = without_parts(entries->list[i].features & ~common);
        int others = __builtin_popcount(more);
        row->alone |= others == 1 ? more : 0;
        row->with_one |= others == 2 ? more : 0;
    }
    row->with_one &= ~row->alone;
    row->crowded = all & ~(row->common | row->alone | row->with_one);
}

static bool has_cases_of_its_own(const struct requirement *requirement)
{
    for (int i = 0; i < requirement->pattern_count; i++)
        if (strcmp(requirement->patterns[i], "*") == 0 || strcmp(requirement->patterns[i], "pair-*") == 0 ||
            strcmp(requirement->patterns[i], "meet-*") == 0)
            return false;
    return requirement->options == 0;
}

int check_features(const struct suite_choice *choice, struct feature_row rows[], int *count)
{
    struct entries entries = {0};
    const struct requirement *requirement;
    int rc = suite_cases(choice, add_entry, &entries);
    *count = 0;
    for (int i = 0; rc == ERR_NONE && (requirement = requirement_at(i)); i++)
        if (requirement_is_of(requirement, suite_version(choice)) && has_cases_of_its_own(requirement)) {
            rows[*count] = (struct feature_row){.requirement = requirement};
            fill_row(&entries, &rows[(*count)++]);
        }
    free(entries.list);
    return rc;
}

static void print_set(uint32_t features, const char *before, const char *after)
{
    for (int i = 0; i < FEATURE_COUNT; i++)
        if (features >> i & 1)
            printf(" %s%s%s", before, claims_feature_name((enum claims_feature)i), after);
}

int check_features_print(const struct suite_choice *choice)
{
    struct feature_row rows[REQUIREMENT_MAX];
    int count;
    TRY(check_features(choice, rows, &count));
    printf("Features that requirements ask for: always; alone, (with one other), [with several others]\n");
    for (int i = 0; i < count; i++) {
        printf("%s ", rows[i].requirement->id);
        print_set(rows[i].common, "", "");
        printf(rows[i].common ? ";" : " -;");
        print_set(rows[i].alone, "", "");
        print_set(rows[i].with_one, "(", ")");
        print_set(rows[i].crowded, "[", "]");
        printf("\n");
    }
    return ERR_NONE;
}

// SPDX-License-Identifier: Apache-2.0
// The table of parts: arithmetic first, then each device of the machine, then their cooperation.
#include "validate/validate_plan.h"

#include "base/err.h"
#include "results/limits/accepted_range.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

// The user's choices that a part accepts. BETWEEN_HOSTS: the part runs only where there are several hosts.
enum { NVME = 1, WORLD = 2, PIN = 4, ENGINE = 8, BETWEEN_HOSTS = 16, TEXT = 32 };

// The lanes that a part can throttle.
#define BIT(lane) (1u << (lane))
enum {
    STORAGE = BIT(LANE_NVME_READ) | BIT(LANE_NVME_WRITE),
    MOVING = STORAGE | BIT(LANE_COLLECTIVE) | BIT(LANE_H2D) | BIT(LANE_D2H),
    ALL = MOVING | BIT(LANE_CPU) | BIT(LANE_COMPUTE),
};

struct row {
    const char *bench;   // null: the conformance suite
    const char *device;  // --device; null: none
    const char *quick[8], *full[8];
    unsigned takes, lanes;
    double quick_s, full_s;  // rough estimates
};

// The model of `overlap` on a GPU has 10^8 parameters, whose states take a disk some seconds a step: too long for a
// check, and so is its serial run.
#define SMALLER_OVERLAP "--model", "gpt:layers=4,width=1024,heads=16,length=256", "--sequences", "16"

static const struct row rows[] = {
    {NULL, NULL, {"check", "--json"}, {"check", "--json", "--level", "full"}, 0, 0, 25, 90},
    {"adam", NULL, {0}, {0}, 0, 0, 10, 90},
    {"adam", "cuda", {0}, {0}, 0, 0, 8, 90},
    {"memory", NULL, {0}, {0}, 0, 0, 15, 40},
    {"memory", "cuda", {0}, {0}, 0, 0, 8, 40},
    {"product", NULL, {0}, {0}, 0, 0, 6, 400},
    {"ranks", NULL, {0}, {0}, WORLD | PIN, 0, 6, 20},
    {"links", NULL, {0}, {0}, BETWEEN_HOSTS, 0, 4, 30},
    {"comm", NULL, {0}, {0}, WORLD, 0, 6, 60},
    {"nvme", NULL, {0}, {0}, NVME | ENGINE, STORAGE, 15, 580},
    {"pcie", NULL, {0}, {0}, NVME, 0, 15, 120},
    {"swap", NULL, {0}, {0}, NVME | ENGINE, 0, 5, 100},
    {"overlap", NULL, {0}, {0}, NVME | ENGINE | TEXT, MOVING, 12, 100},
    {"overlap", "cuda", {SMALLER_OVERLAP}, {0}, NVME | ENGINE | TEXT, MOVING, 15, 150},
    {"pipeline", NULL, {0}, {0}, NVME, ALL, 12, 30},
    {"step", NULL, {0}, {0}, NVME | ENGINE | TEXT, MOVING, 12, 150},
    {"step", "cuda", {0}, {0}, NVME | ENGINE | TEXT, MOVING, 25, 500},
};
enum { ROW_COUNT = sizeof rows / sizeof *rows };
_Static_assert((int)ROW_COUNT <= (int)VALIDATE_PART_MAX, "a plan has room for every row");

// A part is stuck when it takes PATIENCE times as long as expected, and at least PATIENCE_S seconds: a machine with
// busy processors is slow but works.
static const double PATIENCE = 20, PATIENCE_S = 300;

// The least share of a budget, and what finding no device takes.
static const double LEAST_S = 0.1, ABSENT_S = 0.5;

// The command line under construction; one that became too long is refused at the end.
struct arguments {
    const char **argv;
    size_t count;
    bool full;
};

static void append(struct arguments *arguments, const char *word)
{
    arguments->full |= arguments->count + 1 == VALIDATE_ARGUMENT_MAX;
    if (!arguments->full)
        arguments->argv[arguments->count++] = word;
}

static void append_option(struct arguments *arguments, const char *option, const char *value)
{
    if (!value)
        return;
    append(arguments, option);
    append(arguments, value);
}

// Writes the emulated lanes that this part can throttle; null: none.
static const char *emulated_lanes(const struct row *row, const struct emulation *emulation,
                                  char out[EMULATION_TEXT_BYTES])
{
    struct emulation own = *emulation;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (!(row->lanes & BIT(lane)))
            own.bytes_per_s[lane] = 0;
    return emulation_any(&own) ? emulation_text(&own, out) : NULL;
}

static int make_part(const struct row *row, const struct validate_choice *choice, struct validate_part *part)
{
    struct arguments a = {.argv = part->argv};
    const char *const *own = choice->quick ? row->quick : row->full;
    snprintf(part->name, sizeof part->name, "%s%s%s%s", row->bench ? "bench-" : "arithmetic",
             row->bench ? row->bench : "", row->device ? "-" : "", row->device ? row->device : "");
    append(&a, choice->program);
    if (row->bench) {
        append(&a, "bench");
        append(&a, row->bench);
        append(&a, "--json");
        if (choice->quick)
            append(&a, "--quick");
        append_option(&a, "--budget", choice->quick ? part->budget : NULL);
    }
    append_option(&a, "--device", row->device);
    for (; *own; own++)
        append(&a, *own);
    for (const char *const *path = choice->nvme_paths; row->takes & NVME && path && *path; path++)
        append_option(&a, "--nvme-path", *path);
    append_option(&a, "--emulate", emulated_lanes(row, &choice->emulation, part->emulate));
    append_option(&a, "--world", row->takes & WORLD ? choice->world : NULL);
    append_option(&a, "--pin", row->takes & PIN ? choice->pin : NULL);
    append_option(&a, "--engine", row->takes & ENGINE ? choice->engine : NULL);
    append_option(&a, "--text", row->takes & TEXT ? choice->text : NULL);
    if (a.full)
        return err_set(ERR_USAGE, "%s: the command has more than %d words; give fewer folders", part->name,
                       VALIDATE_ARGUMENT_MAX);
    part->bench = row->bench;
    part->may_be_absent = part_is_of_device(part->name);
    part->expected_s = part->may_be_absent && !choice->has_gpu ? ABSENT_S : choice->quick ? row->quick_s : row->full_s;
    part->budget_s = choice->quick ? part->expected_s : 0;
    part->limit_s = choice->time_limit_s > 0 ? choice->time_limit_s : fmax(PATIENCE * part->expected_s, PATIENCE_S);
    return ERR_NONE;
}

void validate_plan_share(struct validate_plan *plan, size_t index, double left_s)
{
    struct validate_part *part = &plan->parts[index];
    double expected_s = 0;
    for (size_t i = index; i < plan->count; i++)
        expected_s += plan->parts[i].expected_s;
    if (part->budget_s == 0)
        return;
    // If no time is left, a benchmark makes the fewest repetitions.
    part->budget_s = fmax(left_s * part->expected_s / expected_s, LEAST_S);
    snprintf(part->budget, sizeof part->budget, "%.1f", part->budget_s);
}

int validate_plan_make(const struct validate_choice *choice, struct validate_plan *out)
{
    assert(choice->program);
    *out = (struct validate_plan){0};
    for (int i = 0; i < ROW_COUNT; i++)
        if (choice->several_hosts || !(rows[i].takes & BETWEEN_HOSTS))
            TRY(make_part(&rows[i], choice, &out->parts[out->count++]));
    double left_s = VALIDATE_QUICK_PARTS_S;
    for (size_t i = 0; i < out->count; i++) {
        validate_plan_share(out, i, left_s);
        left_s -= out->parts[i].budget_s;
    }
    return ERR_NONE;
}

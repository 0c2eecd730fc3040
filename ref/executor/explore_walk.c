// SPDX-License-Identifier: Apache-2.0
// The walk through every order. What has happened is a count for each chain; the states of level n are those in which n
// events have happened. Each state carries the number of orders that lead to it.
#include "ref/executor/explore_internal.h"

#include "base/err.h"

#include <stdlib.h>
#include <string.h>

// A set of states, hashed.
struct level {
    struct state {
        struct moment happened;
        double orders;  // 0: an empty place
    } * states;
    size_t count, capacity;  // a power of two, at least twice the count
};

static size_t hash_of(const struct moment *moment)
{
    uint64_t hash = 0;
    for (int chain = 0; chain < CHAIN_COUNT; chain++)
        hash = (hash ^ moment->count[chain]) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(hash ^ hash >> 32);
}

static struct state *place_of(const struct level *level, const struct moment *moment)
{
    size_t at = hash_of(moment) & (level->capacity - 1);
    while (level->states[at].orders > 0 && memcmp(&level->states[at].happened, moment, sizeof *moment) != 0)
        at = (at + 1) & (level->capacity - 1);
    return &level->states[at];
}

static int grow(struct level *level)
{
    struct level larger = {.capacity = level->capacity > 0 ? 2 * level->capacity : 64, .count = level->count};
    larger.states = calloc(larger.capacity, sizeof *larger.states);
    if (!larger.states)
        return err_set(ERR_MEMORY, "explore: no memory for %zu states", larger.capacity);
    for (size_t i = 0; i < level->capacity; i++)
        if (level->states[i].orders > 0)
            *place_of(&larger, &level->states[i].happened) = level->states[i];
    free(level->states);
    *level = larger;
    return ERR_NONE;
}

static int add(struct level *level, const struct moment *moment, double orders)
{
    if (2 * (level->count + 1) > level->capacity)
        TRY(grow(level));
    struct state *state = place_of(level, moment);
    level->count += state->orders == 0;
    state->happened = *moment;
    state->orders += orders;
    return ERR_NONE;
}

static bool reaches(const struct moment *happened, const struct moment *wanted)
{
    for (int chain = 0; chain < CHAIN_COUNT; chain++)
        if (happened->count[chain] < wanted->count[chain])
            return false;
    return true;
}

// The issues that are next happen immediately: they hinder nothing, and commute with all.
static void issue_ahead(const struct explorer *x, struct moment *happened)
{
    while (happened->count[CHAIN_ISSUER] < x->count &&
           x->events[happened->count[CHAIN_ISSUER]].entry->kind == ENTRY_OPERATION)
        happened->count[CHAIN_ISSUER]++;
}

// The next event of a chain, if it may happen; null otherwise.
static const struct event *next_of(const struct explorer *x, const struct moment *happened, int chain)
{
    size_t place = happened->count[chain];
    if (place >= (chain == CHAIN_ISSUER ? x->count : x->run_count[chain]))
        return NULL;
    const struct event *event = &x->events[chain == CHAIN_ISSUER ? place : x->runs[chain][place]];
    return reaches(happened, &event->after) ? event : NULL;
}

// The event happens in a state: false if it meets a wrong version there.
static bool meets_its_versions(const struct explorer *x, const struct moment *happened, const struct event *event,
                               struct walked *out)
{
    for (int chain = 0; chain < CHAIN_COUNT; chain++)
        if (happened->count[chain] < event->needed.count[chain]) {
            out->right = false;
            explorer_tell(x, &x->events[event->owner[chain]], event, out->message);
            return false;
        }
    return true;
}

static int step(const struct explorer *x, const struct state *state, struct level *next, bool *end, struct walked *out)
{
    *end = true;
    for (int chain = 0; chain < CHAIN_COUNT; chain++) {
        const struct event *event = next_of(x, &state->happened, chain);
        if (!event)
            continue;
        *end = false;
        if (!meets_its_versions(x, &state->happened, event, out))
            return ERR_NONE;
        struct moment moment = state->happened;
        moment.count[chain]++;
        issue_ahead(x, &moment);
        TRY(add(next, &moment, state->orders));
    }
    return ERR_NONE;
}

int explorer_walk(const struct explorer *x, size_t state_limit, struct walked *out)
{
    struct level now = {0}, next = {0};
    struct moment begin = {0};
    *out = (struct walked){.right = true, .complete = true};
    issue_ahead(x, &begin);
    int code = add(&now, &begin, 1);
    while (code == ERR_NONE && now.count > 0 && out->right && out->complete) {
        out->state_count += now.count;
        for (size_t i = 0; code == ERR_NONE && out->right && i < now.capacity; i++) {
            bool end;
            if (now.states[i].orders == 0)
                continue;
            code = step(x, &now.states[i], &next, &end, out);
            out->orders += end ? now.states[i].orders : 0;
        }
        out->complete = next.count <= state_limit;
        free(now.states);
        now = next;
        next = (struct level){0};
    }
    free(now.states);
    return code;
}

// SPDX-License-Identifier: Apache-2.0
// What an implementation says it held and sent, against ZeRO's formulas in their exact form for N ranks. Psi counts the
// elements of all parameters, Psi_t of those that are trained; b, c and a are the bytes of an element in the model's,
// the communication and the accumulation dtype; m and k those of a moment and a master, 4 unless the claims say less.
// Sums over all ranks:
//
//   held                  data parallel   P_os            P_os+g          P_os+g+p
//     parameters          N b Psi         N b Psi         N b Psi         b Psi
//     gradients           N a Psi_t       N a Psi_t       a Psi_t         a Psi_t
//     optimizer (m, v)    N 2m Psi_t      2m Psi_t        2m Psi_t        2m Psi_t     (m of Muon's matrices)
//     master              N k Psi_t       k Psi_t         k Psi_t         k Psi_t      (or none where b is k)
//   sent
//     reduce              2(N-1) c Psi_t  (N-1) c Psi_t   (N-1) c Psi_t   (N-1) c Psi_t
//       for each          step            step            micro-step      micro-step
//     gather              none            (N-1) b Psi_t   (N-1) b Psi_t   (N-1) b Psi to 2(N-1) b Psi
//       for each                          applied step    applied step    micro-step
//
// A gather in E4M3 has b = 1, and may count its scales: 4 bytes for each tensor and rank. How often a program gathers
// is known from its twin that does so in fp32.
//
// In P_os+g+p every micro-step gathers for forward and for backward, less what is kept from one to the other. Padding,
// where it is held or sent, is at most an element for each tensor and two for each group, on every rank. Where a
// tensor's size is no multiple of N, a program may count the (N-1)/N that a rank sends rounded down: N-1 elements of
// each tensor.
#include "conformance/judge/judge_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct amounts {
    uint64_t all, trained;  // Psi, Psi_t
    uint64_t matrices;      // elements of Muon's, which have one moment
    uint64_t tensors, pad;  // trained tensors; elements of padding that one rank may have
    uint64_t steps, micro_steps, applied;
};

// All amounts but `applied`.
static struct amounts elements_of(const struct check_case *c)
{
    struct amounts a = {.steps = (uint64_t)c->steps, .micro_steps = (uint64_t)c->steps * (uint64_t)c->accumulation};
    for (int i = 0; i < c->param_count; i++) {
        if (case_owner(c, i) != i)
            continue;
        a.all += c->params[i].count;
        a.trained += case_is_trained(c, i) ? c->params[i].count : 0;
        a.matrices += case_is_muon(c, i) ? c->params[i].count : 0;
        a.tensors += case_is_trained(c, i);
    }
    a.pad = a.tensors + 2 * (uint64_t)c->group_count;
    return a;
}

static struct amounts amounts_of(const struct trial *trial)
{
    struct amounts a = elements_of(trial->c);
    for (int step = 1; step <= trial->c->steps; step++)
        a.applied += trial->decisions[step - 1].applies > 0;
    return a;
}

static void within(struct finding *out, const char *what, uint64_t actual, uint64_t least, uint64_t most)
{
    if (actual == UINT64_MAX || out->verdict == VERDICT_FAIL)
        return;
    out->verdict = actual < least || actual > most ? VERDICT_FAIL : VERDICT_PASS;
    if (out->verdict == VERDICT_PASS)
        return;
    if (least == most)
        snprintf(out->text, sizeof out->text, "%s: %llu over all ranks, expected %llu", what,
                 (unsigned long long)actual, (unsigned long long)least);
    else
        snprintf(out->text, sizeof out->text, "%s: %llu over all ranks, expected %llu to %llu", what,
                 (unsigned long long)actual, (unsigned long long)least, (unsigned long long)most);
}

// UINT64_MAX if any rank is silent.
static uint64_t sum_over_ranks(const struct trial *trial, uint64_t (*get)(const struct answer_usage *, int), int which)
{
    uint64_t sum = 0;
    for (int rank = 0; rank < trial->c->world; rank++) {
        uint64_t value = get(&trial->answer->usage[rank], which);
        if (value == UINT64_MAX)
            return UINT64_MAX;
        sum += value;
    }
    return sum;
}

static uint64_t held(const struct answer_usage *usage, int kind)
{
    return usage->held_bytes[kind];
}

static uint64_t sent(const struct answer_usage *usage, int purpose)
{
    return usage->sent_bytes[purpose];
}

static uint64_t calls(const struct answer_usage *usage, int purpose)
{
    return usage->calls[purpose];
}

// The table of bytes held.
struct held_sums {
    uint64_t params, grads, moments, master;
};

static struct held_sums held_of(const struct check_case *c, const struct rule_states *states)
{
    struct amounts a = elements_of(c);
    uint64_t world = (uint64_t)c->world, copies = c->stage < 1 ? world : 1;
    return (struct held_sums){
        .params = dtype_bytes(c->precision) * a.all * (c->stage < 3 ? world : 1),
        .grads = dtype_bytes(c->accumulation_dtype) * a.trained * (c->stage < 2 ? world : 1),
        .moments = dtype_bytes(states->moments) * (2 * a.trained - a.matrices) * copies,
        .master = dtype_bytes(states->master) * a.trained * copies,
    };
}

uint64_t judge_held_bytes(const struct check_case *c, const struct claimed_states *claimed)
{
    struct rule_states states = rule_states_of(c, claimed);
    struct held_sums sums = held_of(c, &states);
    return sums.params + sums.grads + sums.moments + (c->precision == states.master ? 0 : sums.master);
}

static void judge_memory(const struct trial *trial, struct finding *out)
{
    struct held_sums sums = held_of(trial->c, &trial->states);
    uint64_t master = sum_over_ranks(trial, held, USAGE_MASTER);
    within(out, "bytes of parameters", sum_over_ranks(trial, held, USAGE_PARAM), sums.params, sums.params);
    within(out, "bytes of gradients", sum_over_ranks(trial, held, USAGE_GRAD), sums.grads, sums.grads);
    within(out, "bytes of moments", sum_over_ranks(trial, held, USAGE_OPTIMIZER), sums.moments, sums.moments);
    // Parameters in the master's dtype are their own master, or have a copy.
    if (trial->c->precision != trial->states.master || master != 0)
        within(out, "bytes of master parameters", master, sums.master, sums.master);
}

static void judge_padding(const struct trial *trial, struct finding *out)
{
    const struct check_case *c = trial->c;
    struct amounts a = amounts_of(trial);
    uint64_t element_bytes = dtype_bytes(c->precision) + dtype_bytes(c->accumulation_dtype) + 4 + 8;
    within(out, "bytes of padding", sum_over_ranks(trial, held, USAGE_PADDING), 0,
           (uint64_t)c->world * a.pad * element_bytes);
}

// Bytes sent for each element that is reduced, in all steps.
static uint64_t reduce_bytes_of(const struct check_case *c, const struct amounts *a)
{
    uint64_t reduces = c->stage == 0 ? 2 * a->steps : c->stage == 1 ? a->steps : a->micro_steps;
    return reduces * ((uint64_t)c->world - 1) * dtype_bytes(c->communication_dtype);
}

uint64_t judge_sent_bytes(const struct check_case *c)
{
    struct amounts a = elements_of(c);
    uint64_t gathered = c->stage == 0 ? 0 : c->stage < 3 ? a.steps * a.trained : a.micro_steps * a.all;
    return reduce_bytes_of(c, &a) * a.trained + ((uint64_t)c->world - 1) * dtype_bytes(c->precision) * gathered;
}

static void judge_traffic(const struct trial *trial, struct finding *out)
{
    const struct check_case *c = trial->c;
    struct amounts a = amounts_of(trial);
    uint64_t others = (uint64_t)c->world - 1, pad = a.pad * (uint64_t)c->world;
    uint64_t reduce_bytes = reduce_bytes_of(c, &a);
    uint64_t gather_bytes = others * (c->gathers_e4m3 ? 1 : dtype_bytes(c->precision));
    uint64_t scales = c->gathers_e4m3 ? sizeof(float) * (uint64_t)c->world * (uint64_t)c->param_count : 0;
    uint64_t trained_floor = a.trained > a.tensors * others ? a.trained - a.tensors * others : 0;
    uint64_t all_floor = trained_floor + (a.all - a.trained);
    within(out, "bytes sent to reduce gradients", sum_over_ranks(trial, sent, USAGE_REDUCE),
           reduce_bytes * trained_floor, reduce_bytes * (a.trained + pad));
    uint64_t gathered = sum_over_ranks(trial, sent, USAGE_GATHER);
    if (c->stage == 0)
        within(out, "bytes sent to gather parameters", gathered, 0, 0);
    else if (c->stage < 3)
        within(out, "bytes sent to gather parameters", gathered, a.applied * gather_bytes * trained_floor,
               a.applied * gather_bytes * (a.trained + pad));
    else
        within(out, "bytes sent to gather parameters", gathered, a.micro_steps * gather_bytes * all_floor,
               2 * a.micro_steps * gather_bytes * (a.all + pad + scales));
}

uint64_t judge_gathered(const struct trial *trial)
{
    return trial->answer->has_usage ? sum_over_ranks(trial, sent, USAGE_GATHER) : UINT64_MAX;
}

// A byte an element is a quarter of fp32's bytes, and 16 bits are half of them. The limit is between the two, as other
// tensors may stay gathered from forward to backward.
void judge_quarter(const struct kept *kept, const struct kept *plain, struct finding *out)
{
    struct amounts a = elements_of(kept->c);
    uint64_t world = (uint64_t)kept->c->world;
    uint64_t more = world * (a.pad + sizeof(float) * (uint64_t)kept->c->param_count);
    within(out, "bytes sent to gather parameters", kept->gathered, 0,
           plain->gathered / 8 * 3 + 2 * a.micro_steps * (world - 1) * more);
    size_t used = strlen(out->text);
    if (out->verdict == VERDICT_FAIL)
        snprintf(out->text + used, sizeof out->text - used, ", as %s sent %llu in fp32", plain->c->name,
                 (unsigned long long)plain->gathered);
}

// Buckets are filled one after the other, so any two neighbours together hold more than one bucket's size; a tied
// parameter and a group may each end one early. In P_os+g+p layers are gathered one by one: one call for each tensor.
static uint64_t most_buckets(const struct check_case *c, const struct amounts *a, size_t bucket)
{
    if (c->stage == 3)
        return a->tensors + 1;
    uint64_t ties = 0;
    for (int i = 0; i < c->param_count; i++)
        ties += c->params[i].tied_to >= 0;
    return 2 * (a->trained / (bucket ? bucket : 1) + 1) + (uint64_t)c->group_count + 2 * ties;
}

static void judge_calls(const struct trial *trial, struct finding *out)
{
    const struct check_case *c = trial->c;
    struct amounts a = amounts_of(trial);
    uint64_t world = (uint64_t)c->world, reduces = c->stage < 2 ? a.steps : a.micro_steps;
    uint64_t gathers = c->stage < 3 ? a.applied : 2 * a.micro_steps;
    within(out, "collectives that reduce gradients", sum_over_ranks(trial, calls, USAGE_REDUCE), 0,
           world * reduces * most_buckets(c, &a, c->reduce_bucket) * (c->stage == 0 ? 2 : 1));
    within(out, "collectives that gather parameters", sum_over_ranks(trial, calls, USAGE_GATHER), 0,
           world * gathers * most_buckets(c, &a, c->allgather_bucket));
}

void judge_usage(const struct trial *trial, enum aspect aspect, struct finding *out)
{
    assert(aspect == ASPECT_MEMORY || aspect == ASPECT_PADDING || aspect == ASPECT_TRAFFIC || aspect == ASPECT_CALLS);
    out->verdict = VERDICT_UNSUPPORTED;
    snprintf(out->text, sizeof out->text, "the answer's usage.json does not say");
    if (!trial->answer->has_usage) {
        snprintf(out->text, sizeof out->text, "the answer has no usage.json");
        return;
    }
    void (*const judges[ASPECT_COUNT])(const struct trial *, struct finding *) = {
        [ASPECT_MEMORY] = judge_memory,
        [ASPECT_PADDING] = judge_padding,
        [ASPECT_TRAFFIC] = judge_traffic,
        [ASPECT_CALLS] = judge_calls,
    };
    judges[aspect](trial, out);
    if (out->verdict == VERDICT_PASS)
        out->text[0] = '\0';
}

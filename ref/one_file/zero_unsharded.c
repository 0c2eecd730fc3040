// SPDX-License-Identifier: Apache-2.0
// Unsharded Adam, and zero.c compared with it:
//
//     cc -O2 -ffp-contract=off zero_unsharded.c -lpthread -lm && ./a.out
//
// trains as zero.c does, and after every step compares every weight and moment of every rank with one copy of the
// states that is updated in loops. If one differs in a bit, it names the first and exits with status 1. Both share the
// model, the formats, Adam on one element, and the rules of loss scale and clipping.
#define ZERO_INCLUDED  // without main
#include "zero.c"

static struct {
    struct rank rank;           // as the model sees it: with a stage that knows no other rank
    float states[STATES][PSI];  // every tensor end to end
    float sum[PSI];             // of gradients, of one rank or of one micro-step
} oracle;

static void oracle_gather(struct rank *r, const struct tensor *t, float *full)
{
    (void)r;
    memcpy(full, oracle.states[PARAM] + t->start, t->count * sizeof *full);
}

// The order of a floating-point sum is part of its definition. Full gradients add up over the micro-steps of a rank,
// each sum rounded, and then over ranks. Partitioned ones add up over the ranks of a micro-step, and then over
// micro-steps, each sum rounded.
static void oracle_reduce(struct rank *r, const struct tensor *t, float *full)
{
    for (size_t k = 0; k < t->count; k++) {
        float *sum = &oracle.sum[t->start + k];
        *sum += full[k];
        if (!r->job->stage->partitions[GRAD])
            *sum = round_to(r->job->precision, *sum);
    }
}

static const struct stage unsharded = {.gather_layer = oracle_gather, .reduce_layer = oracle_reduce};

static void oracle_backward(const struct job *job, size_t step)
{
    bool ranks_first = job->stage->partitions[GRAD];
    enum dtype precision = job->precision;
    float *total = oracle.states[GRAD];
    memset(total, 0, PSI * sizeof *total);
    for (size_t outer = 0; outer < (ranks_first ? job->accumulation : N_D); outer++) {
        memset(oracle.sum, 0, sizeof oracle.sum);
        for (size_t inner = 0; inner < (ranks_first ? N_D : job->accumulation); inner++)
            forward_backward(&oracle.rank, step, ranks_first ? outer : inner, ranks_first ? inner : outer);
        for (size_t i = 0; i < PSI; i++)
            if (ranks_first)
                total[i] = round_to(precision, total[i] + round_to(precision, oracle.sum[i]));
            else
                total[i] += oracle.sum[i];
    }
    float divisor = (float)((double)(N_D * job->accumulation) * oracle.rank.loss_scale.scale);
    for (size_t i = 0; i < PSI; i++)
        total[i] = round_to(precision, total[i]) / divisor;
}

// The order of the squares is part of the norm, too: shard by shard.
static double oracle_norm(const struct job *job)
{
    double norm = 0;
    for (size_t owner = 0; owner < N_D; owner++) {
        double squares = 0;
        for (size_t layer = 0; layer < LAYERS; layer++) {
            const struct tensor *t = &job->tensors[layer];
            const float *gradient = oracle.states[GRAD] + t->start;
            for (size_t k = owner * t->shard; k < (owner + 1) * t->shard && k < t->count; k++)
                squares += (double)gradient[k] * (double)gradient[k];
        }
        norm += squares;
    }
    return sqrt(norm);
}

static void oracle_step(const struct job *job, size_t step)
{
    struct rank *r = &oracle.rank;
    oracle_backward(job, step);
    double norm = oracle_norm(job);
    loss_scale_advance(&r->loss_scale, !isfinite(norm));
    if (!isfinite(norm))
        return;
    struct adam adam = adam_begin(&job->groups[0], step, ++r->t);
    float clip = clip_factor(norm, job->max_norm);
    for (size_t i = 0; i < PSI; i++) {
        adam_element(&adam, oracle.states[GRAD][i] * clip, &oracle.states[MASTER][i], &oracle.states[EXP_AVG][i],
                     &oracle.states[EXP_AVG_SQ][i]);
        oracle.states[PARAM][i] = round_to(job->precision, oracle.states[MASTER][i]);
    }
}

// Every weight and moment that a rank has.
static void compare(struct rank *r)
{
    static const char *const names[STATES] = {"parameter", "gradient", "master", "exp_avg", "exp_avg_sq"};
    for (enum state state = PARAM; state < STATES; state++) {
        float ours[PSI], *right = oracle.states[state];
        memcpy(ours, right, sizeof ours);
        if (state != GRAD)
            move_all(r, READ, state, ours);
        for (size_t i = 0; i < PSI; i++)
            if (memcmp(&ours[i], &right[i], sizeof *ours) != 0) {
                printf("  %s: DIFFERENT in step %zu, rank %zu, %s %zu: %a, unsharded Adam %a\n", r->stage->name,
                       r->step, r->id, names[state], i, (double)ours[i], (double)right[i]);
                exit(1);
            }
    }
}

// A partitioned state has at most the padding more than its share.
static void compare_sizes(const struct rank *r)
{
    for (enum state state = PARAM; state < STATES; state++) {
        size_t share = r->stage->partitions[state] ? PSI / N_D : PSI;
        if (r->states[state].count > share + LAYERS * N_D) {
            printf("  %s: %zu elements of a state are held where the share is %zu\n", r->stage->name,
                   r->states[state].count, share);
            exit(1);
        }
    }
}

static void oracle_begin(struct job *job)
{
    memset(&oracle, 0, sizeof oracle);
    oracle.rank = (struct rank){.job = job, .stage = &unsharded, .loss_scale = job->loss_scale};
    for (size_t id = 0; id < N_D; id++) {
        move_all(&job->ranks[id], READ, MASTER, oracle.states[MASTER]);
        move_all(&job->ranks[id], READ, PARAM, oracle.states[PARAM]);
    }
}

static void compare_losses(const struct rank *r)
{
    static double first;
    if (r->step == 1)
        first = r->loss;
    if (r->step == STEPS && r->loss >= first) {
        printf("  %s: the loss does not fall: %g in step 1, %g in step %d\n", r->stage->name, first, r->loss, STEPS);
        exit(1);
    }
}

static void hold_against_oracle(struct job *job)
{
    if (job->ranks[0].step == 0)
        oracle_begin(job);
    else
        oracle_step(job, job->ranks[0].step);
    for (size_t id = 0; id < N_D; id++) {
        compare(&job->ranks[id]);
        compare_sizes(&job->ranks[id]);
    }
    compare_losses(&job->ranks[0]);
}

int main(void)
{
    watch = hold_against_oracle;
    train();
    printf("Every weight and moment, in every step and on every rank, has the bits of unsharded Adam.\n");
}

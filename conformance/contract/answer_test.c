// SPDX-License-Identifier: Apache-2.0
// Answers that are well-formed: what is written is read again, in every part that may be there or not.
#include "conformance/contract/answer_test.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

static char folder[PATH_MAX];
static struct check_case c;
static struct answer answer;

static void setup(void)
{
    folder_make(folder);
    fixture_case(&c);
}

static void teardown(void)
{
    answer_close(&answer);
    folder_remove(folder);
}

TestSuite(answer, .init = setup, .fini = teardown);

static void open_answer(void)
{
    cr_assert_eq(answer_open(&c, folder, &answer), ERR_NONE, "%s", err_message());
}

static void write_step(int step, void (*change)(struct answer_step *state))
{
    cr_assert_eq(fixture_write_step(&c, folder, step, change), ERR_NONE, "%s", err_message());
}

static void expect_array(const float *actual, int step, int kind, int param)
{
    cr_assert_not_null(actual, "step %d kind %d param %d", step, kind, param);
    for (size_t i = 0; i < c.params[param].count; i++)
        cr_assert_eq(f32_bits(actual[i]), f32_bits(fixture_value(step, kind, param, i)), "step %d kind %d param %d %zu",
                     step, kind, param, i);
}

Test(answer, small_files_leave_no_descriptor_open)
{
    fixture_answer(&c, folder);
    int before = dup(0);
    close(before);
    open_answer();
    int after = dup(0);
    close(after);
    cr_expect_eq(after, before);
}

Test(answer, every_step_is_read_as_it_was_written)
{
    fixture_answer(&c, folder);
    open_answer();
    cr_expect_eq(answer.kind, ANSWER_STATES);
    cr_expect(answer.has_seen && answer.has_usage);
    for (int step = 1; step <= c.steps; step++) {
        struct answer_step state;
        bool skipped = step == FIXTURE_SKIPPED_STEP;
        cr_assert_eq(answer_read_step(&answer, step, &state), ERR_NONE, "%s", err_message());
        cr_expect_eq(state.t, step);
        cr_expect_eq(state.skipped, skipped);
        cr_expect(state.has_loss_scale);
        cr_expect_eq(state.loss_scale, 256.0 / step);
        cr_expect_eq(state.has_norm, !skipped);
        cr_expect_eq(state.has_grad, !skipped);
        cr_expect(skipped || state.norm == 1.5 * step);
        for (int param = 0; param < c.param_count; param++) {
            if (param == FIXTURE_TIED) {
                cr_expect(!state.param[param] && !state.exp_avg[param] && !state.grad[param]);
                continue;
            }
            expect_array(state.param[param], step, 0, param);
            cr_expect_eq(state.exp_avg[param] != NULL, param != FIXTURE_FROZEN);
            cr_expect_eq(state.grad[param] != NULL, param != FIXTURE_FROZEN && !skipped);
            if (param == FIXTURE_FROZEN)
                continue;
            expect_array(state.exp_avg[param], step, 1, param);
            expect_array(state.exp_avg_sq[param], step, 2, param);
            if (state.grad[param])
                expect_array(state.grad[param], step, 3, param);
        }
        answer_step_close(&state);
    }
}

Test(answer, what_every_forward_saw_is_read_rank_by_rank)
{
    static const int used[] = {FIXTURE_MATRIX, FIXTURE_SCALAR, FIXTURE_EMPTY, FIXTURE_FROZEN, FIXTURE_TIED};
    float values[FIXTURE_COUNT_MAX];
    fixture_answer(&c, folder);
    open_answer();
    for (int step = 1; step <= c.steps; step++)
        for (int rank = 0; rank < c.world; rank++)
            for (int micro = 0; micro < c.accumulation; micro++)
                for (int k = 0; k < 5; k++) {
                    values[0] = -1;
                    cr_assert_eq(answer_read_seen(&answer, step, rank, micro, used[k], values), ERR_NONE, "%s",
                                 err_message());
                    size_t count = c.params[used[k]].count;
                    float expected = (float)(step * 100 + rank * 50 + micro * 25 + used[k]);
                    cr_expect_eq(values[count ? count - 1 : 0], count ? expected : -1);
                }
    cr_expect_eq(answer_read_seen(&answer, 1, 0, 0, FIXTURE_UNUSED, values), ERR_INTERNAL);
}

Test(answer, what_a_micro_step_does_not_use_is_not_in_it)
{
    float values[FIXTURE_COUNT_MAX];
    c.params[FIXTURE_MATRIX].unused_in[1] = 2;
    fixture_answer(&c, folder);
    open_answer();
    cr_expect_eq(answer_read_seen(&answer, 2, 1, 1, FIXTURE_MATRIX, values), ERR_INTERNAL);
    cr_expect_eq(answer_read_seen(&answer, 2, 1, 0, FIXTURE_MATRIX, values), ERR_NONE, "%s", err_message());
    cr_expect_eq(answer_read_seen(&answer, 1, 1, 1, FIXTURE_MATRIX, values), ERR_NONE, "%s", err_message());
    answer_close(&answer);
    c.params[FIXTURE_MATRIX].unused_in[1] = 0;
    cr_expect_eq(answer_open(&c, folder, &answer), ERR_USAGE, "a tensor is missing");
}

Test(answer, what_has_been_checked_does_not_change_with_its_files)
{
    char path[PATH_MAX + 32];
    float seen[FIXTURE_COUNT_MAX];
    struct answer_step state;
    fixture_answer(&c, folder);
    open_answer();
    snprintf(path, sizeof path, "%s/step-3.safetensors", folder);
    cr_assert_eq(truncate(path, 0), 0);
    snprintf(path, sizeof path, "%s/rank-1/step-3.safetensors", folder);
    cr_assert_eq(unlink(path), 0);
    cr_assert_eq(answer_read_step(&answer, 3, &state), ERR_NONE, "%s", err_message());
    expect_array(state.exp_avg[FIXTURE_MATRIX], 3, 1, FIXTURE_MATRIX);
    cr_expect_eq(answer_read_seen(&answer, 3, 1, 1, FIXTURE_SCALAR, seen), ERR_NONE, "%s", err_message());
    cr_expect_eq(seen[0], 300 + 50 + 25 + FIXTURE_SCALAR);
    answer_step_close(&state);
}

Test(answer, usage_is_read_by_rank_and_may_be_silent)
{
    fixture_answer(&c, folder);
    open_answer();
    for (int kind = 0; kind < USAGE_KIND_COUNT; kind++) {
        cr_expect_eq(answer.usage[0].held_bytes[kind], kind + 1);
        cr_expect_eq(answer.usage[1].held_bytes[kind], kind == 1 ? UINT64_MAX : (uint64_t)kind + 11);
    }
    cr_expect_eq(answer.usage[0].sent_bytes[USAGE_REDUCE], 6);
    cr_expect_eq(answer.usage[0].sent_bytes[USAGE_GATHER], 7);
    cr_expect_eq(answer.usage[0].calls[USAGE_REDUCE], 8);
    cr_expect_eq(answer.usage[0].calls[USAGE_GATHER], 9);
    cr_expect_eq(answer.usage[1].sent_bytes[USAGE_REDUCE], UINT64_MAX);
    cr_expect_eq(answer.usage[1].calls[USAGE_REDUCE], UINT64_MAX);
    cr_expect_eq(answer.usage[1].calls[USAGE_GATHER], 0);
}

static void leave_out(struct answer_step *state)
{
    state->exp_avg[FIXTURE_UNUSED] = state->exp_avg_sq[FIXTURE_UNUSED] = NULL;
    state->has_grad = state->has_norm = false;
}

Test(answer, the_optional_parts_may_be_left_out)
{
    struct answer_step state;
    for (int step = 1; step <= c.steps; step++)
        write_step(step, leave_out);
    open_answer();
    cr_expect(!answer.has_seen && !answer.has_usage);
    cr_expect_eq(answer.usage[1].calls[USAGE_GATHER], UINT64_MAX);
    cr_assert_eq(answer_read_step(&answer, 3, &state), ERR_NONE);
    cr_expect(!state.has_grad && !state.has_norm);
    cr_expect_null(state.exp_avg[FIXTURE_UNUSED]);
    cr_expect_not_null(state.param[FIXTURE_UNUSED]);
    answer_step_close(&state);
}

Test(answer, a_case_without_scale_and_check_has_no_such_scalars)
{
    struct answer_step state;
    c.overflow_check = false;
    c.loss_scale = (struct case_loss_scale){.kind = SCALE_NONE};
    c.steps = 1;
    write_step(1, NULL);
    open_answer();
    cr_assert_eq(answer_read_step(&answer, 1, &state), ERR_NONE);
    cr_expect(!state.has_loss_scale && !state.skipped);
    answer_step_close(&state);
}

static void have_no_numbers(struct answer_step *state)
{
    state->param[FIXTURE_SCALAR][0] = INFINITY;
    state->exp_avg[FIXTURE_SCALAR][0] = NAN;
    state->norm = NAN;
}

Test(answer, infinity_and_nan_are_values)
{
    struct answer_step state;
    c.steps = 1;
    write_step(1, have_no_numbers);
    open_answer();
    cr_assert_eq(answer_read_step(&answer, 1, &state), ERR_NONE);
    cr_expect(isinf(state.param[FIXTURE_SCALAR][0]) && isnan(state.exp_avg[FIXTURE_SCALAR][0]) && isnan(state.norm));
    answer_step_close(&state);
}

static void forget_the_owner(struct answer_step *state)
{
    state->exp_avg[FIXTURE_MATRIX] = NULL;
}

Test(answer, a_tied_gradient_makes_its_owner_a_used_one)
{
    c.params[FIXTURE_MATRIX].used = false;
    c.steps = 1;
    cr_expect_eq(fixture_write_step(&c, folder, 1, forget_the_owner), ERR_INTERNAL);
    cr_expect_not_null(strstr(err_message(), "exp_avg/layer.0.weight"));
}

Test(answer, a_half_that_resumes_answers_its_own_steps)
{
    struct answer_step state;
    c.steps = 5;
    c.phase = PHASE_RESUME;
    c.checkpoint_step = 3;
    for (int step = 4; step <= 5; step++)
        write_step(step, NULL);
    open_answer();
    cr_assert_eq(answer_read_step(&answer, 5, &state), ERR_NONE);
    cr_expect_eq(state.t, 5);
    answer_step_close(&state);
    answer_close(&answer);
    c.phase = PHASE_SAVE;
    cr_expect_eq(answer_open(&c, folder, &answer), ERR_USAGE);
}

Test(answer, why_a_case_is_declined_is_shown_as_one_printable_line)
{
    static const char why[] = "\n no\tfp16 \x1b[31m\xc2\x9b"
                              "here,\r\n sorry \n";
    cr_assert_eq(answer_write_text(folder, ANSWER_UNSUPPORTED, why), ERR_NONE);
    open_answer();
    cr_expect_eq(answer.kind, ANSWER_UNSUPPORTED);
    cr_expect_str_eq(answer.text, "no fp16 [31m\\u{009b}here, sorry");
}

Test(answer, a_long_refusal_is_cut)
{
    char why[5000];
    memset(why, 'w', sizeof why - 1);
    why[sizeof why - 1] = '\0';
    cr_assert_eq(answer_write_text(folder, ANSWER_REFUSED, why), ERR_NONE);
    open_answer();
    cr_expect_eq(answer.kind, ANSWER_REFUSED);
    cr_expect_gt(strlen(answer.text), 400);
    cr_expect_lt(strlen(answer.text), ANSWER_TEXT_BYTES);
    cr_expect_str_eq(answer.text + strlen(answer.text) - 4, "w...");
}

static void *write_seen(void *argument)
{
    const void *params[FIXTURE_PARAMS];
    const void *const *seen[CASE_ACCUMULATION_MAX] = {params, params};
    float values[FIXTURE_COUNT_MAX] = {0};
    for (int i = 0; i < FIXTURE_PARAMS; i++)
        params[i] = values;
    for (int step = 1; step <= c.steps; step++)
        cr_assert_eq(answer_write_seen(&c, folder, step, *(int *)argument, seen), ERR_NONE, "%s", err_message());
    return NULL;
}

Test(answer, concurrent_ranks_write_their_own_files)
{
    enum { WORLD = 7 };
    pthread_t threads[WORLD];
    int ranks[WORLD];
    c.world = WORLD;
    for (int rank = 0; rank < WORLD; rank++) {
        ranks[rank] = rank;
        cr_assert_eq(pthread_create(&threads[rank], NULL, write_seen, &ranks[rank]), 0);
    }
    for (int step = 1; step <= c.steps; step++)
        write_step(step, NULL);
    for (int rank = 0; rank < WORLD; rank++)
        pthread_join(threads[rank], NULL);
    open_answer();
    cr_expect(answer.has_seen);
}

Test(answer, a_file_is_not_written_twice)
{
    fixture_answer(&c, folder);
    cr_expect_eq(fixture_write_step(&c, folder, 1, NULL), ERR_IO);
    cr_expect_not_null(strstr(err_message(), "step-1.safetensors"));
}

// SPDX-License-Identifier: Apache-2.0
// A peer made of this library, for the tests of `bench peer`. It speaks the protocol of peer.h and can be wrong on
// purpose:
//
//     peer_stand_in adam RECIPE [param|exp_avg|copy]     flips a bit of that array's last element
//     peer_stand_in times                                sleeps for a millisecond, for checkpoint, comm and nvme
//     peer_stand_in step [loss]                          reports a wrong loss
#include "bench/adam/adam_arrays.h"
#include "ref/arithmetic/adam.h"
#include "bench/harness/bench.h"
#include "ref/optimizer/clip.h"
#include "base/err.h"
#include "ref/model/names/model_find.h"
#include "ref/train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static json_t *read_line(void)
{
    char *line = NULL;
    size_t room = 0;
    json_t *read = getline(&line, &room, stdin) > 0 ? json_loads(line, 0, NULL) : NULL;
    free(line);
    return read;
}

// Prints an answer and releases it.
static void say(json_t *answer)
{
    json_dumpf(answer, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(answer);
}

static size_t number(const json_t *object, const char *key)
{
    return (size_t)json_integer_value(json_object_get(object, key));
}

static void *read_array(size_t bytes)
{
    void *array = malloc(bytes + 1);
    if (!array || fread(array, 1, bytes, stdin) != bytes)
        exit(2);
    return array;
}

static void adam_state(const struct adam_step *step, const char *wrong)
{
    const struct {
        const char *name;
        void *array;
        size_t element_bytes;
    } all[] = {{"param", step->param, 4},
               {"exp_avg", step->exp_avg, 4},
               {"exp_avg_sq", step->exp_avg_sq, 4},
               {"copy", step->model_params, 2}};
    say(json_pack("{s:s}", "state", "follows"));
    for (size_t i = 0; i < 4 && all[i].array; i++) {
        size_t bytes = step->count * all[i].element_bytes;
        if (wrong && strcmp(wrong, all[i].name) == 0)
            ((unsigned char *)all[i].array)[bytes - all[i].element_bytes] ^= 1;
        fwrite(all[i].array, 1, bytes, stdout);
    }
    fflush(stdout);
}

static void adam(const json_t *setting, const char *recipe, const char *wrong)
{
    size_t count = number(setting, "params");
    bool whole = strcmp(json_string_value(json_object_get(setting, "step")), "whole") == 0;
    float *param = read_array(count * 4), *exp_avg = read_array(count * 4), *exp_avg_sq = read_array(count * 4);
    struct adam_hyper hyper = ADAM_ARRAYS_HYPER;
    struct adam_step step = {.recipe = recipe_find(recipe),
                             .grad = read_array(count * (whole ? 2 : 4)),
                             .grad_dtype = whole ? DTYPE_BF16 : DTYPE_FP32,
                             .grad_divisor = 1,
                             .grad_coefficient = 1,
                             .param = param,
                             .exp_avg = exp_avg,
                             .exp_avg_sq = exp_avg_sq,
                             .model_dtype = DTYPE_BF16,
                             .model_params = whole ? calloc(count + 1, 2) : NULL,
                             .count = count,
                             .tensor_count = count};
    hyper.lr = json_number_value(json_object_get(setting, "lr"));
    struct recipe_state state = {0};
    json_t *request;
    if (recipe_begin_step(step.recipe, &hyper, number(setting, "t"), &state, &step.scalars) != ERR_NONE)
        exit(2);
    say(json_pack("{s:s}", "name", "stand-in Adam"));
    for (; (request = read_line()); json_decref(request)) {
        uint64_t begin_ns = clock_now_ns();
        if (strcmp(json_string_value(json_object_get(request, "do")), "state") == 0) {
            adam_state(&step, wrong);
            continue;
        }
        for (size_t call = 0; call < number(request, "calls"); call++)
            adam_update(&step);
        say(json_pack("{s:I}", "ns", (json_int_t)(clock_now_ns() - begin_ns)));
    }
    free(param);
    free(exp_avg);
    free(exp_avg_sq);
    free((void *)(uintptr_t)step.grad);
    free(step.model_params);
}

static void times(void)
{
    json_t *request;
    say(json_pack("{s:s}", "name", "stand-in"));
    for (; (request = read_line()); json_decref(request)) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        say(json_pack("{s:i, s:i}", "ns", 1000000, "bytes", 1 << 20));
    }
}

static void keep_loss(void *context, const struct train_progress *progress)
{
    ((double *)context)[progress->step - 1] = progress->loss;
}

// Trains all steps in one run with zero0, then reports them turn by turn.
static void step(const json_t *setting, bool wrong)
{
    enum { STEPS_MAX = 64 };
    double losses[STEPS_MAX] = {0};
    size_t steps = number(setting, "steps") * number(setting, "turns"), world = number(setting, "world"), reported = 0;
    const char *const set[] = {"bf16.enabled=false"};
    const struct config_options options = {.world = (int)world, .set = set, .set_count = 1};
    struct train_setting train = {.world = (int)world,
                                  .steps = steps,
                                  .seed = 1,
                                  .threads = 1,
                                  .progress = keep_loss,
                                  .progress_context = losses};
    struct config config;
    struct train_result result = {0};
    struct text *text;
    json_t *request;
    train.config = &config;
    if (steps > STEPS_MAX || config_load_preset("zero0", &options, &config, NULL) != ERR_NONE ||
        model_find("gpt-nano", &train.model) != ERR_NONE || text_open(NULL, &text) != ERR_NONE)
        exit(2);
    train.text = text;
    size_t tokens = steps * world * number(setting, "sequences") * (number(setting, "length") + 1);
    free(read_array(4 * model_param_elements(train.model, false) + 2 * tokens));
    if (train_run(&train, &result) != ERR_NONE)
        exit(2);
    losses[steps - 1] += wrong ? 0.1 : 0;
    say(json_pack("{s:s}", "name", "stand-in training"));
    for (; (request = read_line()); json_decref(request)) {
        json_t *own = json_array(), *step_ns = json_array();
        for (size_t i = 0; i < number(request, "calls"); i++, reported++) {
            json_array_append_new(own, json_real(losses[reported]));
            json_array_append_new(step_ns, json_integer(1000));
        }
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        say(json_pack("{s:o, s:o, s:i}", "losses", own, "step_ns", step_ns, "resident_peak_bytes", 1 << 20));
    }
    free(result.step_ns);
    text_close(text);
}

int main(int argc, char **argv)
{
    json_t *setting = read_line();
    if (!setting || argc < 2)
        return 2;
    if (strcmp(argv[1], "adam") == 0 && argc > 2)
        adam(setting, argv[2], argc > 3 ? argv[3] : NULL);
    else if (strcmp(argv[1], "step") == 0)
        step(setting, argc > 2);
    else
        times();
    json_decref(setting);
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Cases on disk: what is written is read again, bit by bit; what CONTRACT.md does not allow is refused, and the message
// says where.
#include "conformance/cases/case.h"
#include "base/err.h"
#include "base/file.h"
#include "base/folder_test.h"
#include "ref/arithmetic/random.h"
#include "ref/checkpoint/safetensors.h"

#include <math.h>
#include <string.h>

static char folder[PATH_MAX];

static void setup(void)
{
    folder_make(folder);
}

static void teardown(void)
{
    folder_remove(folder);
}

TestSuite(check_case, .init = setup, .fini = teardown);

static uint64_t counter;

static int below(int count)
{
    return (int)random_below(random_mix(counter++), (uint64_t)count);
}

static double some_real(void)
{
    static const double reals[] = {0, 0.1, 1e-8, 1.0 / 3, 5e-324, 1.7976931348623157e308, 0x1p-1022, 123456789, -0.0};
    return below(2) ? reals[below(9)] : ldexp((double)random_mix(counter++), -70 - below(200));
}

static void random_group(struct case_group *group, int steps)
{
    group->decoupled = below(2);
    group->lr_by_step = below(2);
    for (int i = 0; i < steps; i++)
        group->lr[i] = group->lr_by_step || i == 0 ? some_real() : group->lr[0];
    group->beta1 = below(2) ? 0 : nextafter(1, 0);
    group->beta2 = 0.999;
    group->eps = some_real();
    group->weight_decay = some_real();
    group->bias_correction = below(2);
}

static void random_param(struct check_case *c, int index)
{
    struct case_param *param = &c->params[index];
    snprintf(param->name, sizeof param->name, "layer-%d.A_%d", index, below(1000));
    param->shape_rank = below(CASE_SHAPE_MAX + 1);
    param->count = 1;
    for (int i = 0; i < param->shape_rank; i++)
        param->count *= param->shape[i] = (size_t)below(4);
    param->group = below(c->group_count);
    param->frozen = below(4) == 0;
    param->used = below(4) != 0;
    if (param->used && !param->frozen && below(3) == 0)
        param->unused_in[below(c->steps)] = (uint16_t)(1 + below((1 << c->accumulation) - 1));
    param->tied_to = -1;
    if (index > 0 && below(3) == 0 && c->params[index - 1].tied_to < 0) {
        char name[CASE_NAME_BYTES];
        memcpy(name, param->name, sizeof name);
        *param = c->params[index - 1];
        memcpy(param->name, name, sizeof name);
        param->tied_to = index - 1;
    }
}

static void random_case(struct check_case *c, int seed)
{
    counter = (uint64_t)seed << 32;
    *c = (struct check_case){0};
    snprintf(c->name, sizeof c->name, "random-%d.w2~2", seed);
    snprintf(c->note, sizeof c->note, "It says \"\\\" \xc3\xa4, %d times.", seed);
    c->requirement_count = below(4);
    for (int i = 0; i < c->requirement_count; i++)
        snprintf(c->requirements[i], sizeof c->requirements[i], "R-ABC-0%c", '1' + (char)i);
    c->world = 1 + below(3);
    c->steps = 1 + below(4);
    c->accumulation = 1 + below(3);
    c->stage = below(4);
    c->precision = (enum dtype)below(3);
    c->communication_dtype = (enum dtype)below(3);
    c->accumulation_dtype = (enum dtype)below(3);
    c->group_count = 1 + below(3);
    c->param_count = 1 + below(5);
    for (int i = 0; i < c->group_count; i++)
        random_group(&c->groups[i], c->steps);
    for (int i = 0; i < c->param_count; i++)
        random_param(c, i);
    c->gradient_clipping = some_real();
    c->loss_scale.kind = (enum case_scale_kind)below(3);
    if (c->loss_scale.kind != SCALE_NONE)
        c->loss_scale.scale = 0.3;
    if (c->loss_scale.kind == SCALE_DYNAMIC) {
        c->loss_scale.window = 1 + (uint64_t)below(100);
        c->loss_scale.hysteresis = 2;
        c->loss_scale.min_scale = 0.1;
    }
    c->overflow_check = below(2);
    c->reduce_bucket = (size_t)below(1000000);
    c->allgather_bucket = (size_t)1 << 40;
    c->prefetch_bucket = (size_t)below(1000000);
    c->sub_group = (size_t)below(1000000);
    c->overlap = below(2);
    c->contiguous_gradients = below(2);
    c->reduce_scatter = below(2);
    c->offload_optimizer = (enum ledger_tier)below(3);
    c->offload_param = (enum ledger_tier)below(3);
    c->delayed_update = below(c->steps + 1);
    if (c->steps > 1 && below(2)) {
        c->phase = below(2) ? PHASE_SAVE : PHASE_RESUME;
        c->checkpoint_step = 1 + below(c->steps - 1);
        c->weights_only = below(2);
    }
    c->gathers_e4m3 = c->stage == 3 && c->precision == DTYPE_FP32;
    c->exact = below(2);
    c->expects_refusal = below(2);
    c->data = (struct case_data){.family = (enum case_family)below(3),
                                 .seed = (uint64_t)seed,
                                 .unit = 3,
                                 .reach = 3,
                                 .spread = 2,
                                 .exponent_low = -6,
                                 .exponent_high = 2};
}

// Every tensor of a file is one of the case's, with its bits in the case's precision; returns how many.
static size_t compare_gradients(const struct check_case *c, const struct case_values *values, int step)
{
    char path[PATH_MAX + 2 * CASE_NAME_BYTES], name[CASE_TENSOR_BYTES];
    struct safetensors file;
    size_t seen = 0;
    snprintf(path, sizeof path, "%s/%s/grads-%d.safetensors", folder, c->name, step);
    cr_assert_eq(safetensors_open(path, &file), ERR_NONE, "%s", err_message());
    for (int micro = 0; micro < c->accumulation; micro++)
        for (int rank = 0; rank < c->world; rank++)
            for (int i = 0; i < c->param_count; i++) {
                const float *gradient = case_gradient(values, step, micro, rank, i);
                cr_assert_eq(gradient != NULL, c->params[i].used && !c->params[i].frozen);
                if (!gradient)
                    continue;
                case_gradient_name(name, micro, rank, c->params[i].name);
                const struct safetensors_tensor *tensor = safetensors_find(&file, name);
                cr_assert_eq(tensor != NULL, case_is_used_in(c, i, step, micro));
                for (size_t k = 0; !tensor && k < c->params[i].count; k++)
                    cr_assert_eq(gradient[k], 0);
                if (!tensor)
                    continue;
                cr_assert_eq(tensor->type, safetensors_type_of(c->precision));
                cr_assert_eq(tensor->count, c->params[i].count);
                cr_assert_eq(tensor->shape_rank, c->params[i].shape_rank);
                float read[81];
                cr_assert_eq(safetensors_read_fp32(&file, tensor, 0, tensor->count, read), ERR_NONE);
                cr_assert_arr_eq(read, gradient, tensor->count * sizeof(float));
                seen++;
            }
    cr_assert_eq(file.tensor_count, seen);
    safetensors_close(&file);
    return seen;
}

static void compare_initial(const struct check_case *c, const struct case_values *values)
{
    char path[PATH_MAX + 2 * CASE_NAME_BYTES];
    struct safetensors file;
    snprintf(path, sizeof path, "%s/%s/init.safetensors", folder, c->name);
    cr_assert_eq(safetensors_open(path, &file), ERR_NONE, "%s", err_message());
    size_t seen = 0;
    for (int i = 0; i < c->param_count; i++) {
        const struct safetensors_tensor *tensor = safetensors_find(&file, c->params[i].name);
        cr_assert_eq(tensor != NULL, c->params[i].tied_to < 0);
        if (!tensor)
            continue;
        float read[81];
        cr_assert_eq(tensor->type, TENSOR_FP32);
        cr_assert_eq(tensor->count, c->params[i].count);
        cr_assert_eq(safetensors_read_fp32(&file, tensor, 0, tensor->count, read), ERR_NONE);
        cr_assert_arr_eq(read, case_initial(values, i), tensor->count * sizeof(float));
        seen++;
    }
    cr_assert_eq(file.tensor_count, seen);
    safetensors_close(&file);
}

Test(check_case, what_is_written_is_read_again_bit_by_bit)
{
    static struct check_case c, again;
    size_t gradients = 0;
    for (int seed = 0; seed < 200; seed++) {
        char path[PATH_MAX];
        struct case_values *values;
        random_case(&c, seed);
        cr_assert_eq(case_values_open(&c, &values), ERR_NONE);
        cr_assert_eq(case_write(&c, values, folder), ERR_NONE, "%s", err_message());
        cr_assert_eq(file_join(folder, c.name, path), ERR_NONE);
        cr_assert_eq(case_read(path, &again), ERR_NONE, "%s", err_message());
        compare_initial(&c, values);
        for (int step = case_first_step(&c); step <= case_last_step(&c); step++)
            gradients += compare_gradients(&c, values, step);
        case_values_close(values);
        c.data = (struct case_data){0};
        cr_assert_eq(memcmp(&c, &again, sizeof c), 0, "seed %d", seed);
    }
    cr_assert_gt(gradients, 1000);
}

Test(check_case, a_phase_has_the_gradients_of_its_own_steps)
{
    static struct check_case c;
    struct case_values *values;
    random_case(&c, 1);
    c.steps = 3;
    c.phase = PHASE_RESUME;
    c.checkpoint_step = 2;
    cr_assert_eq(case_first_step(&c), 3);
    cr_assert_eq(case_last_step(&c), 3);
    cr_assert_eq(case_values_open(&c, &values), ERR_NONE);
    cr_assert_eq(case_write(&c, values, folder), ERR_NONE);
    cr_assert_eq(case_write(&c, values, folder), ERR_IO, "the folder is there already");
    case_values_close(values);
    for (int step = 1; step <= 3; step++) {
        char path[PATH_MAX + 2 * CASE_NAME_BYTES];
        struct safetensors file;
        snprintf(path, sizeof path, "%s/%s/grads-%d.safetensors", folder, c.name, step);
        cr_assert_eq(safetensors_open(path, &file) == ERR_NONE, step == 3);
        if (step == 3)
            safetensors_close(&file);
    }
    c.phase = PHASE_SAVE;
    cr_assert_eq(case_first_step(&c), 1);
    cr_assert_eq(case_last_step(&c), 2);
}

Test(check_case, single_values_take_the_place_of_others_and_none_may_miss)
{
    static struct check_case c;
    struct case_values *values;
    random_case(&c, 3);
    c.param_count = 1;
    c.params[0] =
        (struct case_param){.name = "a", .shape = {5}, .shape_rank = 1, .count = 5, .used = true, .tied_to = -1};
    c.data.poke_count = 1;
    c.data.pokes[0] = (struct case_poke){
        .step = c.steps, .micro = c.accumulation - 1, .rank = c.world - 1, .element = 4, .value = INFINITY};
    cr_assert_eq(case_values_open(&c, &values), ERR_NONE);
    size_t infinite = 0;
    for (int step = 1; step <= c.steps; step++)
        for (int micro = 0; micro < c.accumulation; micro++)
            for (int rank = 0; rank < c.world; rank++)
                for (int e = 0; e < 5; e++)
                    infinite += isinf(case_gradient(values, step, micro, rank, 0)[e]) != 0;
    cr_assert_eq(infinite, 1);
    cr_assert(isinf(case_gradient(values, c.steps, c.accumulation - 1, c.world - 1, 0)[4]));
    case_values_close(values);
    c.data.pokes[0].element = 5;
    cr_assert_eq(case_values_open(&c, &values), ERR_INTERNAL);
    c.data.pokes[0].element = 0;
    c.params[0].frozen = true;
    cr_assert_eq(case_values_open(&c, &values), ERR_INTERNAL);
}

// A small case whose text the tests below change in one place.
static const char *plain_text(void)
{
    static struct check_case c;
    static char *text;
    size_t bytes;
    random_case(&c, 0);
    c = (struct check_case){
        .name = "plain",
        .note = "Plain.",
        .requirement_count = 1,
        .requirements = {"R-ANS-01"},
        .world = 2,
        .steps = 3,
        .accumulation = 1,
        .stage = 1,
        .param_count = 2,
        .group_count = 1,
        .params = {{.name = "a", .shape = {2, 3}, .shape_rank = 2, .count = 6, .used = true, .tied_to = -1},
                   {.name = "b", .shape = {2, 3}, .shape_rank = 2, .count = 6, .used = true, .tied_to = 0}},
        .groups = {{.lr = {0.5, 0.25, 0.125}, .lr_by_step = true, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}},
        .loss_scale = {.kind = SCALE_DYNAMIC, .scale = 8, .window = 2, .hysteresis = 1, .min_scale = 1},
        .phase = PHASE_SAVE,
        .checkpoint_step = 2};
    free(text);
    cr_assert_eq(case_text(&c, &text, &bytes), ERR_NONE);
    return text;
}

static int parse_changed(const char *from, const char *to, struct check_case *out)
{
    char changed[8192];
    const char *text = plain_text(), *at = strstr(text, from);
    cr_assert_not_null(at, "%s is in no case", from);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return case_parse("case.json", changed, strlen(changed), out);
}

struct refusal {
    const char *from, *to, *message;
};

static const struct refusal refusals[] = {
    {"\"contract\": 1", "\"contract\": 2", "case.json:2: contract: is 2, expected a whole number from 1 to 1"},
    {"\"contract\": 1", "\"contract\": 1.0", "case.json:2: contract: is 1.0, expected"},
    {" \"contract\": 1,\n", "", "case.json:1: contract: is missing, expected"},
    {"\"name\": \"plain\"", "\"name\": \"../plain\"", "case.json:3: name: is \"../plain\", expected letters"},
    {"\"name\": \"plain\"", "\"name\": \".plain\"", "case.json:3: name: is \".plain\", expected letters"},
    {"\"name\": \"plain\"", "\"name\": \"\"", "case.json:3: name: is \"\", expected letters"},
    {"\"name\": \"plain\"", "\"name\": 7", "case.json:3: name: is 7, expected a string"},
    {"\"note\": \"Plain.\"", "\"note\": \"a\\u001bb\"", "case.json:4: note: is"},
    {"\"world\": 2", "\"world\": 0", "case.json:6: world: is 0, expected a whole number from 1 to 64"},
    {"\"world\": 2", "\"world\": 65", "case.json:6: world: is 65"},
    {"\"world\": 2", "\"world\": \"2\"", "case.json:6: world: is \"2\""},
    {"\"world\": 2", "\"world\": 2, \"word\": 2", "case.json:6: word: unknown key"},
    {"\"world\": 2", "\"world\": 2, \"world\": 2", "case.json:6: world: given twice"},
    {" \"world\": 2,\n", "", "case.json:1: world: missing"},
    {"\"steps\": 3", "\"steps\": 65", "case.json:7: steps: is 65"},
    {"\"accumulation\": 1", "\"accumulation\": 17", "case.json:8: accumulation: is 17"},
    {"\"stage\": 1", "\"gather_dtype\": \"e4m3\", \"stage\": 1", "gather_dtype: is given in a case of stage 1"},
    {"\"stage\": 1", "\"gather_dtype\": \"bf16\", \"stage\": 3", "gather_dtype: is \"bf16\""},
    {"\"stage\": 1", "\"stage\": 4", "case.json:9: stage: is 4, expected a whole number from 0 to 3"},
    {"\"precision\": \"fp32\"", "\"precision\": \"fp64\"",
     "case.json:10: precision: is \"fp64\", expected one of \"fp32\", \"bf16\", \"fp16\""},
    {"\"R-ANS-01\"", "5", "case.json:5: requirements: element 0 is not the name of a requirement"},
    {"[2, 3]", "[2, -3]", "case.json:14: params.0.shape: element 1 is -3"},
    {"[2, 3]", "[2, 3, 1, 1, 1]", "case.json:14: params.0.shape: has 5 elements, expected an array of 0 to 4"},
    {"[2, 3]", "[16777216, 2]", "case.json:14: params.0.shape: has more than 16777216 elements"},
    {"\"group\": 0", "\"group\": 1", "case.json:14: params.0.group: is 1, expected a whole number from 0 to 0"},
    {"\"name\": \"b\"", "\"name\": \"a\"", "case.json:15: params.1.name: is \"a\", which an earlier parameter has"},
    {"\"name\": \"b\"", "\"name\": \"b/c\"", "case.json:15: params.1.name: is \"b/c\""},
    {"\"tied_to\": \"a\"", "\"tied_to\": \"b\"", "case.json:15: params.1.tied_to: is \"b\", expected null or"},
    {"\"tied_to\": null", "\"tied_to\": \"b\"", "case.json:14: params.0.tied_to: is \"b\", expected null or"},
    {"[2, 3]", "[3, 2]", "case.json:15: params.1.tied_to: is \"a\", expected a parameter of the same shape"},
    {"\"frozen\": false", "\"frozen\": true", "case.json:15: params.1.tied_to: is \"a\", expected a parameter of"},
    {"\"frozen\": false", "\"frozen\": 0", "case.json:14: params.0.frozen: is 0, expected true or false"},
    {"\"optimizer\": \"Adam\"", "\"optimizer\": \"SGD\"", "case.json:18: groups.0.optimizer: is \"SGD\", expected"},
    {"[0.5, 0.25, 0.125]", "[0.5, 0.25]", "case.json:18: groups.0.lr: has 2 elements, expected one for each of the 3"},
    {"[0.5, 0.25, 0.125]", "[0.5, null, 1]", "case.json:18: groups.0.lr: element 1 is not a number"},
    {"[0.5, 0.25, 0.125]", "[0.5, -1, 1]", "case.json:18: groups.0.lr: is -1 in step 2"},
    {"[0.5, 0.25, 0.125]", "\"x\"", "case.json:18: groups.0.lr: is \"x\", expected a number"},
    {"[0.9, 0.95]", "[0.9, 1]", "case.json:18: groups.0.betas: are 0.9 and 1, expected numbers from 0 to below 1"},
    {"[0.9, 0.95]", "[0.9]", "case.json:18: groups.0.betas: has 1 elements"},
    {"[0.9, 0.95]", "[0.9, \"0\"]", "case.json:18: groups.0.betas: are not two numbers"},
    {"\"gradient_clipping\": 0", "\"gradient_clipping\": -0.5", "gradient_clipping: is -0.5, expected at least 0"},
    {"\"initial_scale\": 8", "\"initial_scale\": -8", "loss_scale.initial_scale: is -8, expected a positive number"},
    {"\"window\": 2", "\"window\": 0", "loss_scale.window: is 0, expected at least 1"},
    {"\"window\": 2", "\"window\": 2, \"scale\": 1", "loss_scale.scale: unknown key"},
    {"\"min_scale\": 1", "\"min_scale\": 16", "loss_scale.min_scale: is 16, expected a positive number, at most"},
    {"\"reduce\": 0", "\"reduce\": -1", "buckets.reduce: is -1"},
    {"\"overlap\": false", "\"overlap\": null", "hints.overlap: is null, expected true or false"},
    {"\"optimizer\": \"none\"", "\"optimizer\": \"disk\"", "offload.optimizer: is \"disk\", expected one of \"none\""},
    {"\"delayed_update\": 0", "\"delayed_update\": 4", "delayed_update: is 4, expected a whole number from 0 to 3"},
    {"\"step\": 2", "\"step\": 3", "checkpoint.step: is 3, expected a whole number from 1 to 2"},
    {"\"phase\": \"save\"", "\"phase\": \"load\"", "checkpoint.phase: is \"load\", expected one of \"save\""},
    {"\"expect\": \"answer\"", "\"expect\": \"nothing\"", "expect: is \"nothing\", expected one of"},
    {"\n}", "", "is not JSON"},
};

Test(check_case, what_the_contract_does_not_allow_is_refused_where_it_stands)
{
    static struct check_case out;
    cr_assert_eq(parse_changed("plain", "plain", &out), ERR_NONE, "%s", err_message());
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        cr_assert_eq(parse_changed(refusals[i].from, refusals[i].to, &out), ERR_USAGE, "%s", refusals[i].to);
        cr_assert_not_null(strstr(err_message(), refusals[i].message), "\"%s\" is not in \"%s\"", refusals[i].message,
                           err_message());
    }
}

// A case that is put to a program leaves out the right answer; a reader that has to know finds it out.
Test(check_case, a_case_that_is_put_to_a_program_tells_nothing)
{
    static const char *const keys[] = {"\"requirements\"", "\"exact\"", "\"expect\""};
    static struct check_case c, out;
    random_case(&c, 1);
    for (int nonsense = 0; nonsense < 2; nonsense++) {
        char path[PATH_MAX + 2 * CASE_NAME_BYTES];
        struct case_values *values;
        size_t bytes;
        snprintf(c.name, sizeof c.name, "untold-%d", nonsense);
        c.expects_refusal = nonsense;
        c.gradient_clipping = nonsense ? -1 : 0;
        cr_assert_eq(case_values_open(&c, &values), ERR_NONE, "%s", err_message());
        cr_assert_eq(case_write_untold(&c, values, folder), ERR_NONE, "%s", err_message());
        case_values_close(values);
        snprintf(path, sizeof path, "%s/%s/case.json", folder, c.name);
        char *text = folder_read(path, &bytes);
        for (int i = 0; i < 3; i++)
            cr_expect_null(memmem(text, bytes, keys[i], strlen(keys[i])), "%s", keys[i]);
        cr_assert_eq(case_parse("case.json", text, bytes, &out), ERR_NONE, "%s", err_message());
        cr_expect_eq(out.expects_refusal, nonsense);
        cr_expect_eq(out.steps, c.steps);
        free(text);
    }
}

Test(check_case, nonsense_is_read_where_a_refusal_is_expected)
{
    static const char *const changes[][2] = {{"\"gradient_clipping\": 0", "\"gradient_clipping\": -1"},
                                             {"\"window\": 2", "\"window\": 0"},
                                             {"\"initial_scale\": 8", "\"initial_scale\": -8"},
                                             {"[0.9, 0.95]", "[1.5, -0.5]"}};
    static struct check_case out;
    for (int i = 0; i < 4; i++) {
        char text[8192];
        cr_assert_eq(parse_changed(changes[i][0], changes[i][1], &out), ERR_USAGE);
        const char *plain = plain_text(), *at = strstr(plain, changes[i][0]), *end = strstr(plain, "\"answer\"");
        snprintf(text, sizeof text, "%.*s%s%.*s\"refusal\"\n}\n", (int)(at - plain), plain, changes[i][1],
                 (int)(end - at - (long)strlen(changes[i][0])), at + strlen(changes[i][0]));
        cr_assert_eq(case_parse("case.json", text, strlen(text), &out), ERR_NONE, "%s", err_message());
        cr_assert(out.expects_refusal);
    }
    cr_assert_eq(out.groups[0].beta1, 1.5);
    cr_assert_eq(out.groups[0].beta2, -0.5);
}

Test(check_case, a_folder_without_a_case_is_refused)
{
    static struct check_case out;
    cr_assert_eq(case_read(folder, &out), ERR_USAGE);
    cr_assert_not_null(strstr(err_message(), "case.json: cannot be opened"));
}

// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of somebody's answer, or as their claims: refused with a message that names the file, or read,
// written and read again to the same. The first byte says as which file.
#include "conformance/contract/answer.h"
#include "conformance/claims/claims.h"
#include "base/err.h"
#include "base/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_STEP, FILE_SEEN, FILE_USAGE, FILE_TEXT, FILE_CLAIMS, FILE_COUNT };

// One rank and one step; a scalar, an empty tensor, a frozen, an unused and a tied one.
static const struct check_case c = {
    .name = "fuzz",
    .world = 1,
    .steps = 1,
    .accumulation = 1,
    .overflow_check = true,
    .loss_scale = {.kind = SCALE_DYNAMIC},
    .param_count = 6,
    .params = {{.name = "a", .shape = {2, 3}, .shape_rank = 2, .count = 6, .used = true, .tied_to = -1},
               {.name = "b", .count = 1, .used = true, .tied_to = -1},
               {.name = "c", .shape = {0}, .shape_rank = 1, .used = true, .tied_to = -1},
               {.name = "d", .shape = {1}, .shape_rank = 1, .count = 1, .used = true, .frozen = true, .tied_to = -1},
               {.name = "e", .shape = {1}, .shape_rank = 1, .count = 1, .tied_to = -1},
               {.name = "f", .shape = {2, 3}, .shape_rank = 2, .count = 6, .used = true}}};

static char folder[] = "/tmp/fuzz-answer-XXXXXX";

static void must(int rc)
{
    if (rc == ERR_NONE)
        return;
    fprintf(stderr, "%s\n", err_message());
    abort();
}

static void in_folder(const char *name, char out[PATH_MAX])
{
    must(file_join(folder, name, out));
}

static void put(const char *name, const unsigned char *data, size_t size)
{
    char path[PATH_MAX];
    in_folder(name, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd) != 0)
        abort();
}

static void forget(const char *name)
{
    char path[PATH_MAX];
    in_folder(name, path);
    remove(path);
}

static void forget_all(void)
{
    static const char *const names[] = {
        "step-1.safetensors", "rank-0/step-1.safetensors", "rank-0", "usage.json", "refused.txt", ""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        forget(names[i]);
}

static void put_step(void)
{
    float values[6] = {0};
    struct answer_step step = {.has_loss_scale = true};
    for (int i = 0; i < c.param_count; i++)
        step.param[i] = step.exp_avg[i] = step.exp_avg_sq[i] = values;
    must(answer_write_step(&c, folder, 1, &step));
}

static void put_seen(const struct answer *answer)
{
    float values[CASE_PARAM_MAX][6] = {{0}};
    const void *params[CASE_PARAM_MAX];
    const void *const *seen[CASE_ACCUMULATION_MAX] = {params};
    for (int i = 0; i < c.param_count; i++) {
        params[i] = values[i];
        if (answer && c.params[i].used)
            must(answer_read_seen(answer, 1, 0, 0, i, values[i]));
    }
    forget("rank-0/step-1.safetensors");
    must(answer_write_seen(&c, folder, 1, 0, seen));
}

static void same(const float *a, const float *b, size_t count)
{
    if (!a != !b || (a && memcmp(a, b, count * sizeof *a) != 0))
        abort();
}

static void write_again(const struct answer *answer)
{
    struct answer written;
    struct answer_step step, again;
    must(answer_read_step(answer, 1, &step));
    forget("step-1.safetensors");
    must(answer_write_step(&c, folder, 1, &step));
    must(answer_open(&c, folder, &written));
    must(answer_read_step(&written, 1, &again));
    answer_close(&written);
    for (int i = 0; i < c.param_count; i++) {
        same(step.param[i], again.param[i], c.params[i].count);
        same(step.exp_avg[i], again.exp_avg[i], c.params[i].count);
        same(step.exp_avg_sq[i], again.exp_avg_sq[i], c.params[i].count);
        same(step.grad[i], again.grad[i], c.params[i].count);
    }
    if (step.t != again.t || step.skipped != again.skipped || step.loss_scale != again.loss_scale)
        abort();
    answer_step_close(&step);
    answer_step_close(&again);
    if (answer->has_seen)
        put_seen(answer);
    if (answer->has_usage) {
        forget("usage.json");
        must(answer_write_usage(&c, folder, answer->usage));
    }
}

static void read_answer(void)
{
    struct answer answer, again;
    if (answer_open(&c, folder, &answer) != ERR_NONE) {
        if (strncmp(err_message(), folder, strlen(folder)) != 0)
            abort();
        return;
    }
    if (answer.kind == ANSWER_STATES) {
        write_again(&answer);
        must(answer_open(&c, folder, &again));
        if (memcmp(answer.usage, again.usage, sizeof answer.usage[0]) != 0)
            abort();
        answer_close(&again);
    }
    answer_close(&answer);
}

static void read_claims(const unsigned char *data, size_t size)
{
    struct claims claims;
    char why[CLAIMS_TEXT_BYTES];
    if (claims_parse("fuzz", (const char *)data, size, &claims) == ERR_NONE)
        claims_lack(&claims, &c, NULL, why);
    else if (strncmp(err_message(), "fuzz:", 5) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static bool is_made;
    if (!is_made && (!mkdtemp(folder) || atexit(forget_all) != 0))
        abort();
    is_made = true;
    if (size == 0)
        return 0;
    int file = data[0] % FILE_COUNT;
    data++, size--;
    if (file == FILE_CLAIMS) {
        read_claims(data, size);
        return 0;
    }
    if (file == FILE_TEXT) {
        put("refused.txt", data, size);
    } else if (file == FILE_STEP) {
        put("step-1.safetensors", data, size);
    } else {
        put_step();
        if (file == FILE_SEEN)
            put_seen(NULL);
        put(file == FILE_SEEN ? "rank-0/step-1.safetensors" : "usage.json", data, size);
    }
    read_answer();
    forget("step-1.safetensors");
    forget("rank-0/step-1.safetensors");
    forget("rank-0");
    forget("usage.json");
    forget("refused.txt");
    return 0;
}

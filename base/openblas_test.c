// SPDX-License-Identifier: Apache-2.0
// OpenBLAS is loaded by what multiplies matrices and by nothing else.
#include "base/openblas.h"

#include "base/command_test.h"
#include "base/err.h"
#include "ref/arithmetic/gpt_math.h"
#include "ref/model/names/model_find.h"

#include <criterion/criterion.h>

#include <cblas.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIMITS = false };  // a sanitizer maps terabytes
#else
enum { LIMITS = true };
#endif

static bool is_mapped(void)
{
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "re");
    cr_assert_not_null(maps);
    while (fgets(line, sizeof line, maps))
        found |= strstr(line, "libopenblas") != NULL;
    fclose(maps);
    return found;
}

static void open_run(const char *name)
{
    const struct model *model;
    struct model_run *run;
    cr_assert_eq(model_find(name, &model), ERR_NONE, "%s", err_message());
    cr_assert_eq(model_run_open(model, 1, DTYPE_FP32, false, NULL, &run), ERR_NONE, "%s", err_message());
    model_run_close(run);
}

Test(openblas, a_gpt_loads_it_and_a_linear_model_does_not)
{
    open_run("linear");
    cr_assert_not(is_mapped());
    open_run("gpt-nano");
    cr_assert(is_mapped());
    cr_assert_eq(openblas_get_num_threads(), 1);
}

Test(openblas, a_function_that_describes_it_loads_it)
{
    cr_assert_eq(strncmp(openblas_get_config(), "OpenBLAS ", 9), 0, "%s", openblas_get_config());
    cr_assert(is_mapped());
    cr_assert_eq(openblas_load(), ERR_NONE);
}

Test(openblas, products_are_its_own)
{
    static const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, -1, 2, 0.5f, 0, 4};
    static const float expected[] = {5, 12, 14, 22.5f};
    float c[4];
    cr_assert_eq(matmul_prepare(), ERR_NONE, "%s", err_message());
    matmul(2, 2, 3, 1, (struct matmul_operand){a, 3, false}, (struct matmul_operand){b, 2, false}, 0, c, 2);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(c[i], expected[i], "%d: %g", i, c[i]);
}

// The value of a line of /proc/self/status.
static long status_of(const char *name)
{
    char line[256];
    long value = -1;
    FILE *status = fopen("/proc/self/status", "re");
    cr_assert_not_null(status);
    while (fgets(line, sizeof line, status))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtol(line + strlen(name) + 1, NULL, 10);
    fclose(status);
    return value;
}

Test(openblas, starts_no_threads)
{
    long threads = status_of("Threads");
    cr_assert_eq(matmul_prepare(), ERR_NONE, "%s", err_message());
    cr_assert(is_mapped());
    cr_expect_eq(status_of("Threads"), threads);
}

enum { SIDE = 192, THREADS = 6, PRODUCTS = 40 };
static float ones[SIDE * SIDE];
static pthread_barrier_t all_have_stacks;

static void *multiply(void *wrong)
{
    pthread_barrier_wait(&all_have_stacks);
    float *c = malloc(SIDE * SIDE * sizeof *c);
    for (int i = 0; c && i < PRODUCTS; i++) {
        matmul(SIDE, SIDE, SIDE, 1, (struct matmul_operand){ones, SIDE, false},
               (struct matmul_operand){ones, SIDE, true}, 0, c, SIDE);
        for (size_t k = 0; k < SIDE * SIDE; k++)
            *(int *)wrong += c[k] != SIDE;
    }
    *(int *)wrong += !c;
    free(c);
    return NULL;
}

// Of 400 MiB the library, stacks and the first buffers leave no room for one buffer a thread: some wait.
Test(openblas, threads_wait_for_a_buffer_where_a_limit_leaves_few_concurrent, .timeout = 120)
{
    pthread_t threads[THREADS];
    int wrong[THREADS] = {0};
    rlim_t bytes = ((rlim_t)status_of("VmSize:") << 10) + ((rlim_t)400 << 20);
    for (size_t i = 0; i < SIDE * SIDE; i++)
        ones[i] = 1;
    if (LIMITS)
        cr_assert_eq(setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes}), 0);
    cr_assert_eq(matmul_prepare(), ERR_NONE, "%s", err_message());
    pthread_barrier_init(&all_have_stacks, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, multiply, &wrong[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        cr_expect_eq(wrong[i], 0);
    }
}

// Whatever the limit, a run ends, with its digest or with a message.
Test(openblas, a_limit_of_address_space_ends_no_run_without_a_message, .timeout = 600)
{
    static const char run[] =
        "timeout -s KILL 100 " ZG_BINARY_DIR "/zerogauge train --preset zero1 --model gpt-nano --steps 1 2>&1";
    char command[512], output[1 << 14], digest[64] = "";
    cr_assert_eq(command_run(run, output, sizeof output), 0, "%s", output);
    const char *at = strstr(output, "state digest ");
    cr_assert(at && sscanf(at, "state digest %63s", digest) == 1, "%s", output);
    for (int kib = 40000; LIMITS && kib < 1000000; kib += 30000) {
        snprintf(command, sizeof command, "ulimit -v %d; %s", kib, run);
        int status = command_run(command, output, sizeof output);
        cr_expect(status == 0 || status == 1 || status == 2, "%d KiB: status %d: %s", kib, status, output);
        cr_expect(strstr(output, status == 0 ? digest : ": "), "%d KiB: status %d: %s", kib, status, output);
    }
}

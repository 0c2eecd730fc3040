// SPDX-License-Identifier: Apache-2.0
// A simulated accelerator, for tests. It maps its memory twice: callers get an inaccessible address, so that an access
// by the host faults, and its kernels, those of isa_scalar.c, work on an accessible shadow. A kernel that gets host
// memory aborts, as a kernel on a GPU would fault.
#ifndef ZG_SHADOW_TEST_H
#define ZG_SHADOW_TEST_H

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"
#include "ref/arithmetic/adam.h"
#include "ref/arithmetic/isa.h"
#include "ref/arithmetic/norm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SHADOW_MAX = 1024 };

// State that tests read: allocations, counts of calls, and the device of each thread.
static struct {
    pthread_mutex_t lock;
    struct {
        uintptr_t begin, bytes;
        char *shadow;
    } blocks[SHADOW_MAX];
    int block_count;
    size_t locked_bytes;
    int lock_count, unlock_count;
} shadow = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Thread_local int shadow_device = -1, shadow_code;

static void *shadow_find(const void *address)
{
    void *found = NULL;
    pthread_mutex_lock(&shadow.lock);
    for (int i = 0; i < shadow.block_count && !found; i++)
        if ((uintptr_t)address - shadow.blocks[i].begin < shadow.blocks[i].bytes)
            found = shadow.blocks[i].shadow + ((uintptr_t)address - shadow.blocks[i].begin);
    pthread_mutex_unlock(&shadow.lock);
    return found;
}

// Returns the shadow of an address, which may be null.
static void *at(const void *address)
{
    void *found = shadow_find(address);
    if (address && !found) {
        fprintf(stderr, "a kernel of the accelerator got memory that is not the accelerator's\n");
        abort();
    }
    return found;
}

static int shadow_enter(int device)
{
    shadow_device = device;
    return ERR_NONE;
}

static int shadow_allocate(size_t bytes, void **out)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), mapped = (bytes + page - 1) / page * page;
    int file = memfd_create("shadow", 0);
    if (shadow_device < 0 || file < 0 || ftruncate(file, (off_t)mapped) != 0)
        return err_set(ERR_INTERNAL, "no shadow: the thread has not entered, or there is no memory");
    char *address = mmap(NULL, mapped, PROT_NONE, MAP_SHARED, file, 0);
    char *work = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    pthread_mutex_lock(&shadow.lock);
    bool full = shadow.block_count == SHADOW_MAX;
    if (!full) {
        shadow.blocks[shadow.block_count].begin = (uintptr_t)address;
        shadow.blocks[shadow.block_count].bytes = mapped;
        shadow.blocks[shadow.block_count++].shadow = work;
    }
    pthread_mutex_unlock(&shadow.lock);
    *out = address;
    return full ? err_set(ERR_INTERNAL, "more than %d shadows", SHADOW_MAX) : ERR_NONE;
}

static int shadow_release(void *memory)
{
    pthread_mutex_lock(&shadow.lock);
    for (int i = 0; i < shadow.block_count; i++)
        if (shadow.blocks[i].begin == (uintptr_t)memory) {
            munmap(memory, shadow.blocks[i].bytes);
            munmap(shadow.blocks[i].shadow, shadow.blocks[i].bytes);
            shadow.blocks[i] = shadow.blocks[--shadow.block_count];
            break;
        }
    pthread_mutex_unlock(&shadow.lock);
    return ERR_NONE;
}

static int shadow_lock(void *memory, size_t bytes)
{
    (void)memory;
    pthread_mutex_lock(&shadow.lock);
    shadow.locked_bytes += bytes;
    shadow.lock_count++;
    pthread_mutex_unlock(&shadow.lock);
    return ERR_NONE;
}

static int shadow_unlock(void *memory)
{
    (void)memory;
    pthread_mutex_lock(&shadow.lock);
    shadow.unlock_count++;
    pthread_mutex_unlock(&shadow.lock);
    return ERR_NONE;
}

static int shadow_copy(void *to, const void *from, size_t bytes)
{
    void *there = shadow_find(to);
    const void *here = shadow_find(from);
    memcpy(there ? there : to, here ? here : from, bytes);
    return shadow_code == ERR_NONE || (there && here) ? ERR_NONE : err_set(shadow_code, "the shadow has failed");
}

static int shadow_fill(void *memory, uint32_t word, size_t bytes)
{
    char *to = at(memory);
    for (size_t i = 0; i < bytes; i += sizeof word)
        memcpy(to + i, &word, sizeof word);
    return ERR_NONE;
}

// A test makes the next wait of its thread fail by setting shadow_code.
static int shadow_wait(void)
{
    int code = shadow_code;
    shadow_code = ERR_NONE;
    return code == ERR_NONE ? ERR_NONE : err_set(code, "the shadow has failed");
}

static void shadow_widen(enum dtype dtype, const void *in, float *out, size_t count)
{
    isa_scalar.widen(dtype, at(in), at(out), count);
}

static void shadow_narrow(enum dtype dtype, const float *in, void *out, size_t count)
{
    isa_scalar.narrow(dtype, at(in), at(out), count);
}

static void shadow_accumulate(enum dtype sum_dtype, void *sum, enum dtype in_dtype, const void *in, size_t count)
{
    isa_scalar.accumulate(sum_dtype, at(sum), in_dtype, at(in), count);
}

static void shadow_fold(enum dtype in_dtype, const void *const in[], int world, enum dtype out_dtype, void *out,
                        size_t count, int add)
{
    const void *there[world];
    for (int rank = 0; rank < world; rank++)
        there[rank] = at(in[rank]);
    isa_scalar.fold(in_dtype, there, world, out_dtype, at(out), count, add);
}

static void shadow_fold_groups(enum dtype in_dtype, const void *const in[], int world, int group, enum dtype out_dtype,
                               void *out, size_t count, int add)
{
    const void *there[world];
    for (int rank = 0; rank < world; rank++)
        there[rank] = at(in[rank]);
    isa_scalar.fold_groups(in_dtype, there, world, group, out_dtype, at(out), count, add);
}

static void shadow_adam(const struct adam_step *step)
{
    struct adam_step there = *step;
    there.grad = at(step->grad);
    there.param = at(step->param);
    there.exp_avg = at(step->exp_avg);
    there.exp_avg_sq = at(step->exp_avg_sq);
    there.model_params = at(step->model_params);
    isa_scalar.adam(&there);
}

static uint32_t shadow_norm_max(enum dtype dtype, const void *values, size_t count)
{
    return isa_scalar.norm_max(dtype, at(values), count);
}

static void shadow_norm_accumulate(struct norm_sum *sum, enum dtype dtype, const void *values, size_t count,
                                   uint32_t max_bits)
{
    isa_scalar.norm_accumulate(sum, dtype, at(values), count, max_bits);
}

#include "ref/arithmetic/shadow_gpt_test.h"

static const struct isa_kernels shadow_kernels = {
    .widen = shadow_widen,
    .narrow = shadow_narrow,
    .accumulate = shadow_accumulate,
    .fold = shadow_fold,
    .fold_groups = shadow_fold_groups,
    .adam = shadow_adam,
    .norm_max = shadow_norm_max,
    .norm_accumulate = shadow_norm_accumulate,
    .operand_round = shadow_operand_round,
    .bias_rows = shadow_bias_rows,
    .bias_add = shadow_bias_add,
    .rows_sum = shadow_rows_sum,
    .layernorm_stats = shadow_layernorm_stats,
    .layernorm_apply = shadow_layernorm_apply,
    .layernorm_backward = shadow_layernorm_backward,
    .gelu_forward = shadow_gelu_forward,
    .gelu_backward = shadow_gelu_backward,
    .attention_forward = shadow_attention_forward,
    .attention_backward = shadow_attention_backward,
    .embedding_forward = shadow_embedding_forward,
    .token_backward = shadow_token_backward,
    .position_backward = shadow_position_backward,
    .crossentropy_forward = shadow_crossentropy_forward,
    .crossentropy_backward = shadow_crossentropy_backward,
};

static const struct accelerator shadow_accelerator = {
    .name = "shadow",
    .kernels = &shadow_kernels,
    .enter = shadow_enter,
    .allocate = shadow_allocate,
    .release = shadow_release,
    .lock = shadow_lock,
    .unlock = shadow_unlock,
    .copy = shadow_copy,
    .fill = shadow_fill,
    .wait = shadow_wait,
    .matmul = shadow_matmul,
};

#endif

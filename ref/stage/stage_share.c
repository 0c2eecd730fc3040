// SPDX-License-Identifier: Apache-2.0
// The shares of a rank, read and written wherever they live, and whole bundles collected from all ranks.
#include "ref/stage/stage.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"

#include <stdlib.h>
#include <string.h>

static int collect(struct stage *stage, int bundle, const void *share, void *whole, enum dtype dtype)
{
    const struct bundle *b = &stage->layout.bundles[bundle];
    struct comm *comm = stage->setting.comm;
    if (bundle_is_everybodys(b)) {
        if (whole != share)
            TRY(bytes_copy(whole, share, b->count * dtype_bytes(dtype)));
        return ERR_NONE;
    }
    size_t counts[comm_world(comm)], offsets[comm_world(comm)];
    for (int rank = 0; rank < comm_world(comm); rank++) {
        counts[rank] = bundle_share_real(b, rank);
        offsets[rank] = bundle_share_begin(b, rank);
    }
    struct ledger *ledger = comm_ledger(comm);
    comm_count_in(comm, NULL);
    int rc = comm_all_gather(comm, share, whole, counts, offsets, dtype);
    comm_count_in(comm, ledger);
    return rc;
}

int stage_share(const struct stage *stage, int bundle)
{
    return bundle_is_everybodys(&stage->layout.bundles[bundle]) ? 0 : comm_rank(stage->setting.comm);
}

// Bytes between memory and a state's place, through a buffer where the place is on NVMe.
static int pass_bytes(struct stage *stage, struct spot place, void *memory, size_t bytes, bool write)
{
    if (place.tier != TIER_NVME)
        return bytes_copy(write ? place.address : memory, write ? memory : place.address, bytes);
    enum { BUFFER_BYTES = 4 << 20 };
    void *buffer;
    if (posix_memalign(&buffer, TIER_NVME_ALIGNMENT, BUFFER_BYTES) != 0)
        return err_set(ERR_MEMORY, "no memory to reach a state on NVMe");
    int code = ERR_NONE;
    for (size_t at = 0; code == ERR_NONE && at < bytes; at += BUFFER_BYTES) {
        size_t length = bytes - at < BUFFER_BYTES ? bytes - at : BUFFER_BYTES;
        size_t whole = move_bytes(TIER_NVME, TIER_HOST, length);
        char *there = (char *)place.address + at, *here = (char *)memory + at;
        if (write) {
            memset(buffer, 0, whole);
            memcpy(buffer, here, length);
            code = tier_nvme_write(stage->setting.nvme, there, buffer, whole);
        } else {
            code = tier_nvme_read(stage->setting.nvme, there, buffer, whole);
            memcpy(here, buffer, length);
        }
    }
    free(buffer);
    return code;
}

static struct spot spot_of(const struct place *place, enum state state)
{
    void *const addresses[] = {place->master, place->exp_avg, place->exp_avg_sq};
    return (struct spot){place->optimizer_tier, addresses[state]};
}

static size_t share_real(const struct stage *stage, int bundle)
{
    return bundle_share_real(&stage->layout.bundles[bundle], stage_share(stage, bundle));
}

int stage_read_copy(struct stage *stage, int bundle, void *out)
{
    const struct place *place = &stage->places[bundle];
    size_t bytes = share_real(stage, bundle) * dtype_bytes(stage->setting.config->precision);
    return pass_bytes(stage, (struct spot){place->parameter_tier, place->parameter}, out, bytes, false);
}

int stage_write_copy(struct stage *stage, int bundle, const void *in)
{
    const struct place *place = &stage->places[bundle];
    size_t bytes = share_real(stage, bundle) * dtype_bytes(stage->setting.config->precision);
    return pass_bytes(stage, (struct spot){place->parameter_tier, place->parameter}, (void *)(uintptr_t)in, bytes,
                      true);
}

int stage_read_share(struct stage *stage, int bundle, enum state state, float *out)
{
    size_t count = share_real(stage, bundle);
    if (!stage->layout.bundles[bundle].frozen)
        return pass_bytes(stage, spot_of(&stage->places[bundle], state), out, count * sizeof *out, false);
    void *copy = malloc(count * sizeof *out + 1);
    if (!copy)
        return err_set(ERR_MEMORY, "no memory for a share of %zu elements", count);
    int code = stage_read_copy(stage, bundle, copy);
    if (code == ERR_NONE)
        dtype_widen(stage->setting.config->precision, copy, out, count);
    free(copy);
    return code;
}

int stage_write_share(struct stage *stage, int bundle, enum state state, const float *in)
{
    const struct place *place = &stage->places[bundle];
    enum dtype precision = stage->setting.config->precision;
    size_t count = share_real(stage, bundle);
    if (!stage->layout.bundles[bundle].frozen)
        TRY(pass_bytes(stage, spot_of(place, state), (void *)(uintptr_t)in, count * sizeof *in, true));
    if (state != STATE_PARAMETER || (void *)place->master == place->parameter)
        return ERR_NONE;
    void *copy = malloc(count * sizeof *in + 1);
    if (!copy)
        return err_set(ERR_MEMORY, "no memory for a share of %zu elements", count);
    dtype_narrow(precision, in, copy, count);
    int code = stage_write_copy(stage, bundle, copy);
    if (code == ERR_NONE && place->pending) {
        code = pass_bytes(stage, (struct spot){pending_tier(place), place->pending}, copy,
                          count * dtype_bytes(precision), true);
    }
    free(copy);
    return code;
}

// Every rank's share of a bundle, read by `read`, in whole.
static int collect_with(struct stage *stage, int bundle, enum dtype dtype, void *whole,
                        int (*read)(struct stage *stage, int bundle, enum state state, void *out), enum state state)
{
    void *share = malloc(stage->layout.bundles[bundle].share_count * dtype_bytes(dtype) + 1);
    if (!share)
        return err_set(ERR_MEMORY, "no memory to collect a share");
    int code = read(stage, bundle, state, share);
    if (code == ERR_NONE)
        code = collect(stage, bundle, share, whole, dtype);
    free(share);
    return code;
}

static int read_state(struct stage *stage, int bundle, enum state state, void *out)
{
    return stage_read_share(stage, bundle, state, out);
}

static int read_copy(struct stage *stage, int bundle, enum state state, void *out)
{
    (void)state;
    return stage_read_copy(stage, bundle, out);
}

static int read_gradient(struct stage *stage, int bundle, enum state state, void *out)
{
    (void)state;
    const struct place *place = &stage->places[bundle];
    size_t bytes = share_real(stage, bundle) * dtype_bytes(stage->setting.config->accumulation_dtype);
    return pass_bytes(stage, (struct spot){place->gradient_tier, place->gradient}, out, bytes, false);
}

int stage_collect_gradient(struct stage *stage, int bundle, void *whole)
{
    return collect_with(stage, bundle, stage->setting.config->accumulation_dtype, whole, read_gradient,
                        STATE_PARAMETER);
}

int stage_regather(struct stage *stage)
{
    for (int i = 0; i < stage->layout.bundle_count; i++)
        if (stage->places[i].whole)
            TRY(collect_with(stage, i, stage->setting.config->precision, stage->places[i].whole, read_copy,
                             STATE_PARAMETER));
    return ERR_NONE;
}

int stage_collect(struct stage *stage, int bundle, enum state state, float *whole)
{
    return collect_with(stage, bundle, DTYPE_FP32, whole, read_state, state);
}

int stage_collect_copy(struct stage *stage, int bundle, void *whole)
{
    const struct place *place = &stage->places[bundle];
    enum dtype precision = stage->setting.config->precision;
    if (!place->whole)
        return collect_with(stage, bundle, precision, whole, read_copy, STATE_PARAMETER);
    return bytes_copy(whole, place->whole, stage->layout.bundles[bundle].count * dtype_bytes(precision));
}

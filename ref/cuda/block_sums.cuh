// SPDX-License-Identifier: Apache-2.0
// Sums over rows whose blocks are summed already (gpt_math.h): they wait, so that one launch adds the blocks of all.
#pragma once

#include "ref/cuda/gpt_team.cuh"

enum { WAITING_SUMS = 16 };

static inline size_t sum_block_count(size_t row_count)
{
    return row_count / SUM_ROWS + (row_count % SUM_ROWS > 0);
}

// One column of one of the sums, whose columns follow each other.
struct block_sums_operation {
    struct {
        const float *blocks;  // [block_count][width]
        size_t block_count, width, first;
        struct sum_place out;
    } sums[WAITING_SUMS];
    int count;

    template <int lanes> __host__ __device__ void at(size_t i) const
    {
        int which = 0;
        while (which + 1 < count && i >= sums[which + 1].first)
            which++;
        const auto &of = sums[which];
        size_t j = i - of.first;
        float sum[lanes] = {0};
        UNROLL(16)
        for (size_t block = 0; block < of.block_count; block++) {
            float x[lanes];
            load_floats<lanes>(of.blocks, block * of.width + j, x);
            for (int k = 0; k < lanes; k++)
                sum[k] += x[k];
        }
        put_sums<lanes>(of.out, j, sum);
    }
};

// The calling thread's; `where` as in gpt_kernels.cuh.
template <typename where> struct block_sums {
    // Memory for the blocks of `count` sums, which are added next; their widths together are `width`. Null: an error is
    // noted. It begins where WIDE floats can be stored.
    static float *room(int count, size_t block_count, size_t width)
    {
        struct waiting &w = of_thread();
        const size_t floats = block_count * width;
        w.used = (w.used + WIDE - 1) / WIDE * WIDE;
        if (w.used + floats > w.room || w.o.count + count > WAITING_SUMS) {
            w.room = w.room > w.used + floats ? w.room : w.used + floats;
            finish();
        }
        if (w.o.count == 0)
            w.memory = (float *)where::scratch(w.room * sizeof(float), SCRATCH_SUMS);
        return w.memory ? w.memory + w.used : NULL;
    }

    // The next sum of the blocks that room() has, to its place, or to `sum`: false, and finish() is to follow.
    static bool add(size_t block_count, size_t width, float *sum, const struct sum_place &place)
    {
        struct waiting &w = of_thread();
        const struct sum_place out = place.data ? place : sum_place{DTYPE_FP32, false, sum};
        w.o.sums[w.o.count++] = {w.memory + w.used, block_count, width, w.columns, out};
        w.wide = w.wide && width % WIDE == 0 && is_wide(out.dtype, out.data);
        w.used += block_count * width;
        w.columns += width;
        return place.data;
    }

    static void finish()
    {
        struct waiting &w = of_thread();
        if (w.o.count > 0)
            where::run(w.o, w.columns, w.wide, "sums over rows");
        w.o.count = 0;
        w.used = w.columns = 0;
        w.wide = true;
    }

  private:
    struct waiting {
        block_sums_operation o;
        float *memory;
        size_t room, used, columns;  // of memory, in floats; of all sums
        bool wide;
    };

    static struct waiting &of_thread()
    {
        static thread_local struct waiting of = {{}, NULL, 0, 0, 0, true};
        return of;
    }
};

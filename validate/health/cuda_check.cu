// SPDX-License-Identifier: Apache-2.0
#include "validate/health/cuda_check.h"

#include "ref/cuda/cuda_grid.cuh"
#include "ref/cuda/mma.cuh"

// Products of SIDE x SIDE; each warp has TILES tiles of 16 x 8 for the tensor cores.
enum { SIDE = 64, TILE_ROWS = 16, TILE_COLUMNS = 8, WARPS = GRID_THREADS / 32 };
enum { TILES = SIDE / TILE_ROWS * (SIDE / TILE_COLUMNS) / WARPS, ALL = -1 };

__host__ __device__ static inline uint64_t mix(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return x ^ x >> 32;
}

// In [-1, 1), with 24 bits.
__host__ __device__ static inline float operand(uint64_t seed, unsigned i)
{
    return (float)((int)(mix(seed + i) >> 40) - (1 << 23)) * 0x1p-23f;
}

// In [-1, 1), with 8 bits: bf16 holds it, and sums of SIDE products have the same bits in every order.
__host__ __device__ static inline float exact(uint64_t seed, unsigned i)
{
    return (float)((int)(mix(~seed + i) >> 56) - (1 << 7)) * 0x1p-7f;
}

// An element's share of a digest, which is their sum.
__host__ __device__ static inline unsigned long long share(float x, unsigned row, unsigned column)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return mix(((uint64_t)(row * SIDE + column + 1) << 32) + bits);
}

__device__ static inline unsigned multiprocessor_of()
{
#ifdef __CUDA_ARCH__
    unsigned number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
#else
    return blockIdx.x % 2;
#endif
}

__device__ static inline uint32_t pair(float low, float high)
{
    uint32_t bits[2];
    memcpy(&bits[0], &low, sizeof low);
    memcpy(&bits[1], &high, sizeof high);
    return bits[0] >> 16 | (bits[1] & 0xffff0000u);
}

// The calling lane's elements of a tile, summed into its share of the digest.
__device__ static inline unsigned long long tile_share(uint64_t seed, unsigned first_row, unsigned first_column)
{
    unsigned lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    float c[4] = {0, 0, 0, 0};
    for (unsigned k = 0; k < SIDE; k += 16) {
        uint32_t a[4], b[2];
        for (unsigned i = 0; i < 4; i++) {
            unsigned at = (first_row + g + 8 * (i % 2)) * SIDE + k + 2 * t + 8 * (i / 2);
            a[i] = pair(exact(seed, at), exact(seed, at + 1));
        }
        for (unsigned i = 0; i < 2; i++) {
            unsigned at = SIDE * SIDE + (k + 2 * t + 8 * i) * SIDE + first_column + g;
            b[i] = pair(exact(seed, at), exact(seed, at + SIDE));
        }
        mma_16x8x16<DTYPE_BF16>(c, a, b);
    }
    unsigned long long sum = 0;
    for (unsigned i = 0; i < 4; i++)
        sum += share(c[i], first_row + g + 8 * (i / 2), first_column + 2 * t + i % 2);
    return sum;
}

__global__ static void __launch_bounds__(GRID_THREADS)
    products_kernel(uint64_t seed, int only, int flip, struct cuda_check_block *out)
{
    __shared__ float operands[2 * SIDE * SIDE];
    __shared__ unsigned long long sums[2][GRID_THREADS];
    unsigned thread = threadIdx.x, here = multiprocessor_of(), warp = thread / 32;
    bool works = only == ALL || (unsigned)only == here;
    if (thread == 0)
        out[blockIdx.x] = {{0, 0}, here, works};
    if (!works)
        return;
    for (unsigned i = thread; i < 2 * SIDE * SIDE; i += GRID_THREADS)
        operands[i] = operand(seed, i);
    __syncthreads();
    unsigned long long chains = 0, tiles = 0;
    for (unsigned i = thread; i < SIDE * SIDE; i += GRID_THREADS) {
        float sum = 0;
        for (unsigned k = 0; k < SIDE; k++)
            sum = fmaf(operands[i / SIDE * SIDE + k], operands[SIDE * SIDE + k * SIDE + i % SIDE], sum);
        chains += share(sum, i / SIDE, i % SIDE);
    }
    for (unsigned i = 0; i < TILES; i++) {
        unsigned tile = warp * TILES + i;
        tiles +=
            tile_share(seed, tile / (SIDE / TILE_COLUMNS) * TILE_ROWS, tile % (SIDE / TILE_COLUMNS) * TILE_COLUMNS);
    }
    sums[0][thread] = chains;
    sums[1][thread] = tiles;
    __syncthreads();
    if (thread < 2) {
        unsigned long long sum = (unsigned)flip == here;
        for (unsigned i = 0; i < GRID_THREADS; i++)
            sum += sums[thread][i];
        out[blockIdx.x].digests[thread] = sum;
    }
}

int cuda_check_products(uint64_t seed, int multiprocessor, int flip, struct cuda_check_block *out, unsigned count)
{
    struct cuda_check_block *results = (struct cuda_check_block *)grid_scratch(count * sizeof *results);
    if (!results)
        return cuda_lane_noted();
    products_kernel<<<count, GRID_THREADS, 0, cuda_lane_stream()>>>(seed, multiprocessor, flip, results);
    return grid_fetch(out, results, count * sizeof *results, "products on every multiprocessor");
}

void cuda_check_expected(uint64_t seed, uint64_t out[2])
{
    out[0] = out[1] = 0;
    for (unsigned row = 0; row < SIDE; row++)
        for (unsigned column = 0; column < SIDE; column++) {
            float chain = 0, tile = 0;
            for (unsigned k = 0; k < SIDE; k++) {
                unsigned a = row * SIDE + k, b = SIDE * SIDE + k * SIDE + column;
                chain = fmaf(operand(seed, a), operand(seed, b), chain);
                tile = fmaf(exact(seed, a), exact(seed, b), tile);
            }
            out[0] += share(chain, row, column);
            out[1] += share(tile, row, column);
        }
}

__host__ __device__ static inline uint64_t word_of(int pattern, uint64_t seed, uint64_t number)
{
    return pattern == PATTERN_ADDRESS       ? number
           : pattern == PATTERN_CHECKER     ? 0x5555555555555555u
           : pattern == PATTERN_WALKING_ONE ? (uint64_t)1 << number % 64
                                            : mix(seed ^ number);
}

uint64_t cuda_check_word(uint64_t seed, uint64_t number)
{
    return word_of(PATTERN_RANDOM, seed, number);
}

__global__ static void write_kernel(uint64_t *words, size_t count, size_t first, int pattern, uint64_t seed)
{
    const struct grid_position at = thread_position();
    for (size_t i = at.index; i < count; i += at.count)
        words[i] = word_of(pattern, seed, first + i);
}

__global__ static void read_kernel(uint64_t *words, size_t count, size_t first, int pattern, uint64_t seed,
                                   uint64_t complement, uint64_t flip, struct cuda_check_wrong *out)
{
    const struct grid_position at = thread_position();
    for (size_t i = at.index; i < count; i += at.count) {
        uint64_t expected = word_of(pattern, seed, first + i) ^ complement;
        if (first + i == flip)
            words[i] ^= 0x10;
        if (words[i] != expected) {
            atomicAdd(&out->count, 1ull);
            atomicMax(&out->last_inverse, ~(unsigned long long)(first + i));
        }
        words[i] = ~expected;
    }
}

void cuda_check_write(uint64_t *words, size_t count, size_t first, enum cuda_check_pattern pattern, uint64_t seed)
{
    write_kernel<<<grid_blocks(count, GRID_ROUNDS), GRID_THREADS, 0, cuda_lane_stream()>>>(words, count, first, pattern,
                                                                                           seed);
    cuda_lane_launched("a pattern's words");
}

void cuda_check_read(uint64_t *words, size_t count, size_t first, enum cuda_check_pattern pattern, uint64_t seed,
                     int complement, uint64_t flip, struct cuda_check_wrong *out)
{
    read_kernel<<<grid_blocks(count, GRID_ROUNDS), GRID_THREADS, 0, cuda_lane_stream()>>>(
        words, count, first, pattern, seed, complement ? ~(uint64_t)0 : 0, flip, out);
    cuda_lane_launched("the comparison of a pattern");
}

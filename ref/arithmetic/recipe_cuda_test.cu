// SPDX-License-Identifier: Apache-2.0
// recipe.h compiled as CUDA: every recipe and kind of decay on the GPU against the same text on the host, bit by bit.
// Exit status: 0 equal, 1 different, 77 no GPU.
#include "recipe.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

enum { COUNT = 1 << 16, STEPS = 3 };

struct arrays {
    float *g, *p, *m, *v;
};

// One kernel a family and fusion, so that the device code of each can be looked at alone.
template <recipe_family family, recipe_fusion fusion>
__global__ void update(arrays x, adam_scalars scalars, size_t begin, size_t end)
{
    size_t i = begin + blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i >= end)
        return;
    recipe_family_element(family, fusion, &scalars, x.g[i], &x.p[i], &x.m[i], &x.v[i]);
}

template <recipe_family family>
static void update_family(recipe_fusion fusion, arrays x, const adam_scalars &scalars, size_t begin, size_t end)
{
    unsigned blocks = (unsigned)((end - begin + 255) / 256);
    if (begin == end)
        return;
    if (fusion == FUSE_NONE)
        update<family, FUSE_NONE><<<blocks, 256>>>(x, scalars, begin, end);
    else if (fusion == FUSE_MOMENT)
        update<family, FUSE_MOMENT><<<blocks, 256>>>(x, scalars, begin, end);
    else
        update<family, FUSE_GRADIENT><<<blocks, 256>>>(x, scalars, begin, end);
}

static void update_range(const recipe *r, recipe_fusion fusion, arrays x, const adam_scalars &scalars, size_t begin,
                         size_t end)
{
    static void (*const updates[RECIPE_FAMILY_COUNT])(recipe_fusion, arrays, const adam_scalars &, size_t, size_t) = {
        update_family<RECIPE_TORCH>,
        update_family<RECIPE_DEEPSPEED>,
        update_family<RECIPE_TORCH_CUDA_FOREACH>,
        update_family<RECIPE_TORCH_CUDA_SINGLE>,
        update_family<RECIPE_TORCH_CUDA_FUSED>,
        update_family<RECIPE_TORCH_CAPTURABLE_FOREACH>,
        update_family<RECIPE_TORCH_CAPTURABLE_SINGLE>,
        update_family<RECIPE_APEX>,
    };
    updates[r->family](fusion, x, scalars, begin, end);
}

static uint64_t mix(uint64_t bits)
{
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
}

// Any sign and fraction, exponents from 2^-87 to 2^2, some zeros.
static float value_at(uint64_t key, uint64_t i)
{
    uint64_t bits = mix(mix(key + 1) + i * 0x9e3779b97f4a7c15u);
    uint32_t encoding = (uint32_t)((bits & 1) << 31 | (40 + (bits >> 8) % 90) << 23 | bits >> 41);
    float value;
    memcpy(&value, &encoding, sizeof value);
    return bits % 23 == 0 ? 0 : value;
}

static bool array_agrees(const char *what, const char *name, const std::vector<float> &host, const float *device)
{
    std::vector<float> got(COUNT);
    cudaMemcpy(got.data(), device, COUNT * sizeof(float), cudaMemcpyDeviceToHost);
    for (size_t i = 0; i < COUNT; i++)
        if (memcmp(&got[i], &host[i], sizeof(float))) {
            printf("%s: %s[%zu] is %a on the GPU and %a on the host\n", name, what, i, got[i], host[i]);
            return false;
        }
    return true;
}

static bool recipe_agrees(const recipe *r, int decay, arrays x)
{
    adam_hyper hyper = {1e-3, 0.9, 0.999, 1e-8, decay ? 0.1 : 0.0, decay == 2, true};
    recipe_state state = {};
    std::vector<float> g(COUNT), p(COUNT), m(COUNT), v(COUNT);
    for (size_t i = 0; i < COUNT; i++)
        p[i] = value_at(0, i);
    cudaMemcpy(x.p, p.data(), COUNT * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(x.m, 0, COUNT * sizeof(float));
    cudaMemset(x.v, 0, COUNT * sizeof(float));
    size_t tail = recipe_tail_start(r, COUNT - 3), count = COUNT - 3;
    for (uint64_t t = 1; t <= STEPS; t++) {
        adam_scalars scalars;
        if (recipe_begin_step(r, &hyper, t, &state, &scalars))
            return false;
        for (size_t i = 0; i < count; i++) {
            g[i] = value_at(t, i);
            recipe_element(r, &scalars, i >= tail, g[i], &p[i], &m[i], &v[i]);
        }
        cudaMemcpy(x.g, g.data(), COUNT * sizeof(float), cudaMemcpyHostToDevice);
        update_range(r, r->body, x, scalars, 0, tail);
        update_range(r, r->tail, x, scalars, tail, count);
    }
    if (cudaDeviceSynchronize() != cudaSuccess) {
        printf("%s: %s\n", r->name, cudaGetErrorString(cudaGetLastError()));
        return false;
    }
    return array_agrees("p", r->name, p, x.p) && array_agrees("m", r->name, m, x.m) &&
           array_agrees("v", r->name, v, x.v);
}

int main()
{
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
        printf("SKIP: no GPU here; recipe.h was compiled as CUDA, and did not run\n");
        return 77;
    }
    arrays x;
    float **const all[] = {&x.g, &x.p, &x.m, &x.v};
    for (float **array : all)
        if (cudaMalloc(array, COUNT * sizeof(float)) != cudaSuccess) {
            printf("the GPU has no %zu bytes\n", COUNT * sizeof(float));
            return 1;
        }
    bool good = true;
    int recipes = 0;
    for (; recipe_at(recipes); recipes++)
        for (int decay = 0; decay < 3; decay++)
            good = recipe_agrees(recipe_at(recipes), decay, x) && good;
    printf("%d recipes: %s\n", recipes, good ? "the GPU's bits are the host's" : "the GPU's bits differ");
    return good ? 0 : 1;
}

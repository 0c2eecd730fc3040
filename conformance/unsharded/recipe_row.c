// SPDX-License-Identifier: Apache-2.0
// The table of recipes. "Bit for bit": the same operations, written out, gave no differing bit in p, m and v against
// the named program over several steps and at least 100,000 elements. "Read": they follow its source text or the
// machine code that its compiler makes, and were not compared with a run of it.
#include "conformance/unsharded/recipe_row.h"

#define BIT_FOR_BIT "bit for bit"
#define READ "read"
#define READ_IEEE "read; its own build uses fast-math, this is the IEEE form"
#define CUDA RECIPE_FUSE_NEW, RECIPE_FUSE_NEW

static const struct adam_recipe rows[] = {
    {"torch-cpu", "PyTorch Adam and AdamW on a CPU with FMA, single tensor and foreach", BIT_FOR_BIT, false,
     RECIPE_FUSE_NEW, RECIPE_FUSE_NEW, torch_begin, torch_cpu_element, NULL, NULL},
    {"torch-fused-cpu", "PyTorch Adam and AdamW(fused=True) on a CPU, built by GCC", BIT_FOR_BIT, false,
     RECIPE_FUSE_NEW, RECIPE_FUSE_OLD, torch_begin, torch_cpu_element, NULL, NULL},
    {"deepspeed-cpu-gcc", "DeepSpeed DeepSpeedCPUAdam, AVX2 or AVX-512, built by GCC", BIT_FOR_BIT, false,
     RECIPE_FUSE_NEW, RECIPE_FUSE_OLD, deepspeed_cpu_begin, deepspeed_cpu_element, NULL, NULL},
    {"deepspeed-cpu-clang", "DeepSpeed DeepSpeedCPUAdam, AVX2 or AVX-512, built by clang", BIT_FOR_BIT, false,
     RECIPE_FUSE_NEW, RECIPE_FUSE_NEW, deepspeed_cpu_begin, deepspeed_cpu_element, NULL, NULL},
    {"deepspeed-cpu-scalar", "DeepSpeed DeepSpeedCPUAdam, built for a processor without FMA", BIT_FOR_BIT, false,
     RECIPE_FUSE_NONE, RECIPE_FUSE_NONE, deepspeed_cpu_begin, deepspeed_cpu_element, NULL, NULL},
    {"torch-cpu-nofma", "PyTorch Adam and AdamW on a CPU, ATEN_CPU_CAPABILITY=default", BIT_FOR_BIT, false,
     RECIPE_FUSE_NONE, RECIPE_FUSE_NONE, torch_begin, torch_cpu_element, NULL, NULL},
    {"torch-cpu-mkl", "PyTorch's wheels on an Intel CPU with AVX-512: square root by MKL", BIT_FOR_BIT, false,
     RECIPE_FUSE_NEW, RECIPE_FUSE_NEW, torch_begin, torch_mkl_element, mkl_sqrt_is_here, NULL},
    {"torch-cpu-mkl-sse", "PyTorch's wheels on another maker's CPU than Intel: square root by MKL", BIT_FOR_BIT, false,
     RECIPE_FUSE_NEW, RECIPE_FUSE_NEW, torch_begin, torch_mkl_sse_element, mkl_sse_sqrt_is_here, NULL},
    {"torch-2.0-cpu", "PyTorch Adam and AdamW before 2.1 on a CPU with FMA, and copies of them", READ, false,
     RECIPE_FUSE_NEW, RECIPE_FUSE_NEW, torch_scaled_begin, torch_cpu_element, NULL, NULL},
    {"torch-2.0-cpu-mkl", "the same, square root by MKL on an Intel CPU with AVX-512", READ, false, RECIPE_FUSE_NEW,
     RECIPE_FUSE_NEW, torch_scaled_begin, torch_mkl_element, mkl_sqrt_is_here, NULL},
    {"torch-2.0-cpu-mkl-sse", "the same, square root by MKL on another maker's CPU than Intel", READ, false,
     RECIPE_FUSE_NEW, RECIPE_FUSE_NEW, torch_scaled_begin, torch_mkl_sse_element, mkl_sse_sqrt_is_here, NULL},
    {"bitsandbytes-cpu", "bitsandbytes Adam and AdamW with fp32 states on a CPU with FMA", READ, true, RECIPE_FUSE_NEW,
     RECIPE_FUSE_NEW, bitsandbytes_begin, bitsandbytes_element, NULL, NULL},
    {"bitsandbytes-cpu-mkl", "the same, square root by MKL on an Intel CPU with AVX-512", READ, true, RECIPE_FUSE_NEW,
     RECIPE_FUSE_NEW, bitsandbytes_begin, bitsandbytes_mkl_element, mkl_sqrt_is_here, NULL},
    {"bitsandbytes-cpu-mkl-sse", "the same, square root by MKL on another maker's CPU than Intel", BIT_FOR_BIT, true,
     RECIPE_FUSE_NEW, RECIPE_FUSE_NEW, bitsandbytes_begin, bitsandbytes_mkl_sse_element, mkl_sse_sqrt_is_here, NULL},
    {"bitsandbytes-8bit-cpu", "bitsandbytes Adam8bit and AdamW8bit, states in blocks of 8 bits, on a CPU with FMA",
     READ, true, RECIPE_FUSE_NEW, RECIPE_FUSE_NEW, torch_scaled_begin, torch_cpu_element, NULL, bitsandbytes_keep},
    {"bitsandbytes-8bit-cpu-mkl", "the same, square root by MKL on an Intel CPU with AVX-512", READ, true,
     RECIPE_FUSE_NEW, RECIPE_FUSE_NEW, torch_scaled_begin, torch_mkl_element, mkl_sqrt_is_here, bitsandbytes_keep},
    {"bitsandbytes-8bit-cpu-mkl-sse", "the same, square root by MKL on another maker's CPU than Intel", BIT_FOR_BIT,
     true, RECIPE_FUSE_NEW, RECIPE_FUSE_NEW, torch_scaled_begin, torch_mkl_sse_element, mkl_sse_sqrt_is_here,
     bitsandbytes_keep},
    {"torchao-cpu", "torchao Adam8bit and AdamW8bit, compiled for a CPU, fp32 states of small tensors", BIT_FOR_BIT,
     false, RECIPE_FUSE_NONE, RECIPE_FUSE_NONE, torchao_begin, torchao_element, NULL, NULL},
    {"torchao-8bit-cpu", "the same, states in blocks of 8 bits", BIT_FOR_BIT, false, RECIPE_FUSE_NONE, RECIPE_FUSE_NONE,
     torchao_begin, torchao_element, NULL, torchao_keep},
    {"torch-cpu-16bit", "PyTorch Adam and AdamW on 16-bit parameters, single tensor and foreach, on a CPU with FMA",
     BIT_FOR_BIT, false, RECIPE_FUSE_NEW, RECIPE_FUSE_OLD, torch_begin, torch_16bit_element, NULL, NULL},
    {"torch-cuda-foreach", "PyTorch Adam and AdamW on CUDA, foreach (the default)", READ, false, CUDA, torch_begin,
     torch_cuda_foreach_element, NULL, NULL},
    {"torch-cuda-single", "PyTorch Adam and AdamW(foreach=False) on CUDA", READ, false, CUDA, torch_begin,
     torch_cuda_single_element, NULL, NULL},
    {"torch-cuda-fused", "PyTorch Adam and AdamW(fused=True) on CUDA", READ, false, CUDA, torch_fused_cuda_begin,
     torch_fused_cuda_element, NULL, NULL},
    {"torch-cuda-fused-fp32", "PyTorch Adam and AdamW(fused=True) on CUDA, in fp32", READ, false, CUDA,
     torch_fused_cuda_fp32_begin, torch_fused_cuda_fp32_element, NULL, NULL},
    {"torch-capturable-foreach", "PyTorch Adam and AdamW(capturable=True), foreach", READ, false, CUDA,
     torch_capturable_foreach_begin, torch_capturable_foreach_element, NULL, NULL},
    {"torch-capturable-single", "PyTorch Adam and AdamW(capturable=True, foreach=False)", READ, false, CUDA,
     torch_capturable_single_begin, torch_capturable_single_element, NULL, NULL},
    {"apex", "FusedAdam of DeepSpeed, Apex and Transformer Engine (Megatron-LM) on CUDA", READ_IEEE, false,
     RECIPE_FUSE_OLD, RECIPE_FUSE_OLD, apex_begin, apex_element, NULL, NULL},
    {"apex-other-fusion", "the same, where the compiler fuses the gradient's product", READ_IEEE, false,
     RECIPE_FUSE_NEW, RECIPE_FUSE_NEW, apex_begin, apex_element, NULL, NULL},
    {"apex-nofma", "the same, nothing fused", READ_IEEE, false, RECIPE_FUSE_NONE, RECIPE_FUSE_NONE, apex_begin,
     apex_element, NULL, NULL},
    {"llmc-cuda", "llm.c on CUDA", READ_IEEE, true, CUDA, llmc_begin, llmc_cuda_element, NULL, NULL},
    {"llmc-cpu", "llm.c on a CPU, as its source is written", READ_IEEE, true, RECIPE_FUSE_NONE, RECIPE_FUSE_NONE,
     llmc_begin, llmc_cpu_element, NULL, NULL},
    {"paddle-cpu", "PaddlePaddle Adam and AdamW on a CPU with FMA", BIT_FOR_BIT, false, RECIPE_FUSE_OLD,
     RECIPE_FUSE_OLD, paddle_begin, paddle_element, NULL, NULL},
    {"optax-cpu", "optax.scale_by_adam, compiled by XLA for a CPU with FMA", BIT_FOR_BIT, false, RECIPE_FUSE_NEW,
     RECIPE_FUSE_NEW, optax_begin, optax_element, NULL, NULL},
};

const struct adam_recipe *adam_recipe_at(int index)
{
    return index >= 0 && (size_t)index < sizeof rows / sizeof *rows ? &rows[index] : NULL;
}

const char *adam_recipe_name(const struct adam_recipe *recipe)
{
    return recipe->name;
}

bool adam_recipe_does(const struct adam_recipe *recipe, bool decoupled)
{
    return (decoupled || !recipe->decoupled_only) && (!recipe->is_here || recipe->is_here());
}

bool adam_recipe_has_tail(const struct adam_recipe *recipe)
{
    return recipe->body != recipe->tail;
}

bool adam_recipe_keeps_fp32(const struct adam_recipe *recipe)
{
    return !recipe->keep;
}

bool adam_recipe_rounds_each(const struct adam_recipe *recipe)
{
    return recipe->element == torch_16bit_element;
}

bool adam_recipe_runs_powers(const struct adam_recipe *recipe)
{
    return recipe->begin == deepspeed_cpu_begin;
}

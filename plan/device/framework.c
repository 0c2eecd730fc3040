// SPDX-License-Identifier: Apache-2.0
#include "plan/device/framework.h"

#include "base/err.h"

#include <stdio.h>
#include <string.h>

enum { DEEPSPEED, FSDP2, HF, TORCHTUNE, MEGATRON, FRAMEWORK_COUNT };

static const struct framework frameworks[FRAMEWORK_COUNT] = {
    [DEEPSPEED] = {.name = "deepspeed",
                   .about = "DeepSpeed's engine with the modules of Hugging Face",
                   .copies_gradients = true,
                   .gathers_modules = true,
                   .has_eager_kernels = true,
                   .logits = LOGITS_HF,
                   .source =
                       "DeepSpeed, stage_1_and_2.py and stage3.py, step(): a partition of averaged gradients in fp32"},
    [FSDP2] = {.name = "fsdp2",
               .about = "PyTorch's fully_shard with a compiled model, as torchtitan has it",
               .masters_are_parameters = true,
               .logits = LOGITS_FP32,
               .source = "PyTorch, fully_shard: mixed precision gathers 16-bit copies of fp32 shards"},
    [HF] = {.name = "hf",
            .about = "Hugging Face's Trainer on FSDP, DDP or one device",
            .masters_are_parameters = true,
            .has_temporaries = true,
            .has_eager_kernels = true,
            .logits = LOGITS_HF,
            .source = "PyTorch, torch.optim.AdamW: foreach by default, with a temporary of the moments' size"},
    [TORCHTUNE] = {.name = "torchtune",
                   .about = "torchtune's recipes: fused AdamW, chunked cross entropy",
                   .masters_are_parameters = true,
                   .has_eager_kernels = true,
                   .logits = LOGITS_CHUNKED,
                   .source = "torchtune, recipes/configs: fused=True, CEWithChunkedOutputLoss"},
    [MEGATRON] = {.name = "megatron",
                  .about = "Megatron-LM with its distributed optimizer",
                  .keeps_gradients = true,
                  .has_fused_kernels = true,
                  .logits = LOGITS_FP32,
                  .source = "Megatron-LM, param_and_grad_buffer.py: one buffer of gradients for the run"},
};

static const struct logits_kind kinds[LOGITS_COUNT] = {
    [LOGITS_HF] = {"hf", 2 + 4 + 4 + 4, "14 x tokens x vocabulary: in 16 bits, in fp32, log-softmax and its gradient",
                   "Transformers, loss_utils.py: logits.float(), kept with the 16-bit output to the end of the loss"},
    [LOGITS_SHIFTED] = {"shifted", 2 + 4 + 4 + 4 + 4,
                        "18 x tokens x vocabulary: as hf, with a copy of the shifted logits in fp32",
                        "Transformers before 4.46, modeling_llama.py: shift_logits, contiguous"},
    [LOGITS_FP32] = {"fp32", 2 + 4 + 4, "10 x tokens x vocabulary: in 16 bits, log-softmax in fp32, and its gradient",
                     "PyTorch, cross_entropy of logits in fp32, fused with the conversion"},
    [LOGITS_16BIT] = {"16bit", 2 + 2, "4 x tokens x vocabulary: in 16 bits, and their gradient",
                      "PyTorch, cross_entropy of logits in 16 bits"},
    [LOGITS_CHUNKED] = {"chunked", 2 + (4 + 4) / 8.0, "3 x tokens x vocabulary: in 16 bits, and of an eighth in fp32",
                        "torchtune, CEWithChunkedOutputLoss: 8 chunks"},
    [LOGITS_FUSED] = {"fused", 0, "none: the product and the loss are one kernel", "Liger-Kernel, fused linear loss"},
};

static const char *framework_name(int i)
{
    return frameworks[i].name;
}

static const char *logits_name(int i)
{
    return kinds[LOGITS_HF + i].name;
}

static const char *weights_name(int i)
{
    static const char *const names[] = {"mixed", "16bit", "nf4"};
    return names[i];
}

static const char *moments_name(int i)
{
    static const char *const names[] = {"weights", "8bit"};
    return names[i];
}

static const char *products_name(int i)
{
    static const char *const names[] = {"weights", "fp8"};
    return names[i];
}

// The index of a word; ERR_USAGE lists them.
static int find(const char *option, const char *word, const char *(*name)(int), int count, int *out)
{
    char names[128] = "";
    for (*out = 0; *out < count; (*out)++) {
        size_t used = strlen(names);
        if (strcmp(word, name(*out)) == 0)
            return ERR_NONE;
        snprintf(names + used, sizeof names - used, "%s%s", *out > 0 ? ", " : "", name(*out));
    }
    return err_set(ERR_USAGE, "%s %.64s: expected one of %s", option, word, names);
}

int framework_choose(const struct framework_words *words, struct framework_choice *out)
{
    int i;
    if (words->framework) {
        TRY(find("--framework", words->framework, framework_name, FRAMEWORK_COUNT, &i));
        out->framework = &frameworks[i];
    }
    if (words->logits) {
        TRY(find("--logits", words->logits, logits_name, LOGITS_COUNT - LOGITS_HF, &i));
        out->logits = (enum logits)(LOGITS_HF + i);
    }
    if (words->weights) {
        TRY(find("--weights", words->weights, weights_name, WEIGHTS_COUNT, &i));
        out->weights = (enum weights)i;
    }
    if (words->moments) {
        TRY(find("--moments", words->moments, moments_name, MOMENTS_COUNT, &i));
        out->moments = (enum moments)i;
    }
    if (words->products) {
        TRY(find("--products", words->products, products_name, PRODUCTS_COUNT, &i));
        out->products = (enum products)i;
    }
    return ERR_NONE;
}

const struct framework *framework_of(const struct framework_choice *choice, const struct config *config)
{
    bool cuts = config->mesh.tensor > 1 || config->mesh.pipeline > 1;
    bool offloads = config->offload_optimizer.tier != TIER_DEVICE || config->offload_param.tier != TIER_DEVICE;
    if (choice->framework)
        return choice->framework;
    if (cuts)
        return &frameworks[MEGATRON];
    if (config->stage == 0 || config->is_fsdp)
        return &frameworks[HF];
    // Of files, those of other engines in stage 3 name theirs; torchao's gathers in FP8 are FSDP's.
    bool is_deepspeed = config->stage < 3 || offloads || (config->is_of_file && !config->e4m3_weights);
    return &frameworks[is_deepspeed ? DEEPSPEED : FSDP2];
}

const struct logits_kind *framework_logits(const struct framework_choice *choice, const struct framework *framework)
{
    return &kinds[choice->logits != LOGITS_OF_FRAMEWORK ? choice->logits : framework->logits];
}

// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/hunt_internal.h"

#include "base/err.h"
#include "base/file.h"
#include "base/safe_text.h"
#include "conformance/cases/case_mesh.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SCRIPT_NUMBER_MAX = 256 };  // that are worth reading

static bool is_plain(const struct check_case *c)
{
    size_t numbers = 0;
    for (int i = 0; i < c->param_count; i++) {
        if (c->params[i].tied_to >= 0 || !c->params[i].used || case_use_varies(c, i) || c->params[i].shape_rank != 1)
            return false;
        numbers += c->params[i].count * (size_t)(1 + c->steps * c->accumulation * c->world);
    }
    for (int i = 0; i < c->group_count; i++)
        if (c->groups[i].decoupled != c->groups[0].decoupled || !c->groups[i].bias_correction)
            return false;
    return c->phase == PHASE_WHOLE && case_options(c) == 0 && c->delayed_update == 0 &&
           c->offload_optimizer != TIER_NVME && c->offload_param != TIER_NVME && numbers <= SCRIPT_NUMBER_MAX;
}

static const struct torch_mode *find_mode(const char *const *command);

bool hunt_script_can(const struct hunt_case *h, const char *upstream, const char *const *command)
{
    const struct check_case *c = h->parts[0];
    if (!upstream || !is_plain(c))
        return false;
    bool deepspeed = strcmp(upstream, "deepspeed") == 0;
    return deepspeed ||
           (find_mode(command) && c->precision == DTYPE_FP32 && c->loss_scale.kind == SCALE_NONE && !c->overflow_check);
}

static const char *python_bool(bool value)
{
    return value ? "True" : "False";
}

static void put_precision(FILE *out, const struct check_case *c)
{
    const struct case_loss_scale *scale = &c->loss_scale;
    if (c->precision == DTYPE_BF16)
        fprintf(out, " \"bf16\": {\"enabled\": True, \"check_grad_overflow\": %s},", python_bool(c->overflow_check));
    if (c->precision == DTYPE_FP16 && scale->kind == SCALE_DYNAMIC)
        fprintf(out,
                " \"fp16\": {\"enabled\": True, \"initial_scale_power\": %d, \"loss_scale_window\": %llu, "
                "\"hysteresis\": %llu, \"min_loss_scale\": %.17g},",
                (int)log2(scale->scale), (unsigned long long)scale->window, (unsigned long long)scale->hysteresis,
                scale->min_scale);
    else if (c->precision == DTYPE_FP16)
        fprintf(out, " \"fp16\": {\"enabled\": True, \"loss_scale\": %.17g},",
                scale->kind == SCALE_STATIC ? scale->scale : 1.0);
}

static void put_config(FILE *out, const struct check_case *c)
{
    bool offloads = c->offload_optimizer == TIER_HOST;
    fprintf(out,
            "CONFIG = {\"train_micro_batch_size_per_gpu\": 1, \"gradient_accumulation_steps\": %d, "
            "\"gradient_clipping\": CLIP,\n    \"communication_data_type\": \"%s\",",
            c->accumulation, dtype_name(c->communication_dtype));
    put_precision(out, c);
    if (c->stage > 0)
        fprintf(out, " \"data_types\": {\"grad_accum_dtype\": \"%s\"},", dtype_name(c->accumulation_dtype));
    fprintf(out, "\n    \"optimizer\": {\"type\": \"%s\", \"params\": {\"lr\": LR[0][0]%s}},",
            c->groups[0].decoupled ? "AdamW" : "Adam", offloads ? "" : ", \"torch_adam\": True");
    fprintf(out,
            " \"zero_optimization\": {\"stage\": %d, \"reduce_bucket_size\": %zu, \"allgather_bucket_size\": %zu,\n"
            "    \"sub_group_size\": %zu, \"stage3_prefetch_bucket_size\": %zu, "
            "\"stage3_param_persistence_threshold\": 0, \"overlap_comm\": %s,\n    \"contiguous_gradients\": "
            "%s, \"reduce_scatter\": %s%s%s}}\n",
            c->stage, c->reduce_bucket, c->allgather_bucket, c->sub_group, c->prefetch_bucket, python_bool(c->overlap),
            python_bool(c->contiguous_gradients), python_bool(c->reduce_scatter),
            offloads ? ", \"offload_optimizer\": {\"device\": \"cpu\"}" : "",
            c->offload_param == TIER_HOST ? ", \"offload_param\": {\"device\": \"cpu\"}" : "");
}

static const char model_text[] =
    "class Model(torch.nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        for name, values in INIT.items():\n"
    "            trained = any(name in group[\"params\"] for group in GROUPS)\n"
    "            self.register_parameter(name, torch.nn.Parameter(torch.tensor(values, dtype=DTYPE), trained))\n"
    "    def forward(self, grads):  # a linear loss: its gradients are the given ones\n"
    "        return sum((self.get_parameter(n) * torch.tensor(g, dtype=DTYPE)).sum() for n, g in grads.items())\n"
    "def groups(named): return [{**group, \"params\": [named[n] for n in group[\"params\"]]} for group in GROUPS]\n";

// The wrapper and the optimizer of each mode of the adapter for PyTorch.
static const struct torch_mode {
    const char *name, *import, *wrap, *optimizer;
} torch_modes[] = {
    {"fsdp2", "from torch.distributed.fsdp import fully_shard", "wrapped = fully_shard(model)", NULL},
    {"fsdp1", "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP",
     "wrapped = FSDP(model, use_orig_params=True)", NULL},
    {"zero1", "from torch.distributed.optim import ZeroRedundancyOptimizer",
     "wrapped = torch.nn.parallel.DistributedDataParallel(model)", "ZeroRedundancyOptimizer"},
    {"ddp", NULL, "wrapped = torch.nn.parallel.DistributedDataParallel(model)", NULL},
};

static const struct torch_mode *find_mode(const char *const *command)
{
    for (size_t k = 0; k < sizeof torch_modes / sizeof *torch_modes; k++)
        for (int i = 0; command[i]; i++)
            if (strcmp(command[i], torch_modes[k].name) == 0)
                return &torch_modes[k];
    return NULL;
}

static void put_torch(FILE *out, const struct check_case *c, const struct torch_mode *mode)
{
    const char *adam = c->groups[0].decoupled ? "AdamW" : "Adam";
    fprintf(out,
            "torch.distributed.init_process_group(\"gloo\")\nmodel, RANK = Model(), torch.distributed.get_rank()\n%s\n"
            "named = {name.removeprefix(\"module.\"): p for name, p in wrapped.named_parameters()}\n",
            mode->wrap);
    if (mode->optimizer)
        fprintf(out, "optimizer = %s(groups(named), torch.optim.%s, lr=LR[0][0])\n", mode->optimizer, adam);
    else
        fprintf(out, "optimizer = torch.optim.%s(groups(named))\n", adam);
}

static void put_deepspeed(FILE *out)
{
    fputs("deepspeed.init_distributed(dist_backend=\"gloo\")\n"
          "model, RANK = Model(), torch.distributed.get_rank()\n"
          "named = dict(model.named_parameters())\n"
          "engine, optimizer, *_ = deepspeed.initialize(model=model, model_parameters=groups(named), config=CONFIG)\n",
          out);
}

// A step of the library.
static void put_step(FILE *out, const struct torch_mode *mode)
{
    if (!mode) {
        fputs("    for micro in micros: engine.backward(engine(micro[RANK])), engine.step()\n", out);
        return;
    }
    fprintf(out,
            "    for micro in micros: (wrapped(micro[RANK]) / len(micros)).backward()\n"
            "    if CLIP: %s\n    optimizer.step(), optimizer.zero_grad()\n",
            strcmp(mode->name, "fsdp1") == 0 ? "wrapped.clip_grad_norm_(CLIP)"
                                             : "torch.nn.utils.clip_grad_norm_(wrapped.parameters(), CLIP)");
}

// All steps, of the library and of the same Adam unsharded, and what differs. mode: null for DeepSpeed.
static void put_steps(FILE *out, const struct check_case *c, const struct torch_mode *mode)
{
    fprintf(
        out,
        "plain = {name: torch.nn.Parameter(torch.tensor(values)) for name, values in INIT.items()}\n"
        "adam = torch.optim.%s(groups(plain))\n"
        "for step, micros in enumerate(GRADS):\n"
        "    for a, b, lr in zip(optimizer.param_groups, adam.param_groups, LR[step]): a[\"lr\"] = b[\"lr\"] = lr\n",
        c->groups[0].decoupled ? "AdamW" : "Adam");
    put_step(out, mode);
    fputs("    ranks = sum(micros, [])\n"
          "    for n in ranks[0]: plain[n].grad = sum(torch.tensor(rank[n]) for rank in ranks) / len(ranks)\n"
          "    if CLIP: torch.nn.utils.clip_grad_norm_(plain.values(), CLIP)\n"
          "    if all(p.grad is None or p.grad.isfinite().all() for p in plain.values()): adam.step()\n",
          out);
    bool whole = mode && strcmp(mode->name, "fsdp1") == 0, distributed = mode && strcmp(mode->name, "fsdp2") == 0;
    if (whole)
        fputs(
            "    with FSDP.summon_full_params(wrapped): named = {n: p.clone() for n, p in model.named_parameters()}\n",
            out);
    fprintf(out, "    for name, p in named.items():\n        got, want = %s.detach().float(), plain[name].detach()\n",
            !mode && c->stage > 0 ? "safe_get_full_fp32_param(p)"
            : distributed         ? "p.full_tensor()"
                                  : "p");
    fputs("        verdict = \"same\" if torch.allclose(got, want, 1e-5, 1e-9) else \"DIFFERENT\"\n"
          "        if RANK == 0: print(step + 1, name, verdict, got.tolist(), \"expected\", want.tolist())\n",
          out);
}

static void put_comment(FILE *out, const struct check_failure *failure, int world)
{
    char text[TEXT_MESSAGE_BYTES];
    fprintf(out, "# %s is %s: ", aspect_name(failure->aspect), verdict_name(failure->verdict));
    fprintf(out, "%s\n", text_message(text, failure->where[0] ? failure->where : failure->why, 200));
    fprintf(out, "# Run: torchrun --nproc-per-node %d report.py\n", world);
}

int hunt_script(const struct hunt_case *h, const char *upstream, const char *const *command,
                const struct check_failure *failure, FILE *out)
{
    static const char *const dtypes[] = {"float32", "bfloat16", "float16"};  // as in enum dtype
    const struct check_case *c = h->parts[0];
    const struct torch_mode *mode = strcmp(upstream, "deepspeed") == 0 ? NULL : find_mode(command);
    put_comment(out, failure, c->world);
    fprintf(out, "%s\n",
            !mode          ? "import torch, deepspeed\nfrom deepspeed.utils import safe_get_full_fp32_param"
            : mode->import ? mode->import
                           : "import torch.distributed");
    fprintf(out, "%sinf, nan, DTYPE, CLIP = float(\"inf\"), float(\"nan\"), torch.%s, ", mode ? "import torch\n" : "",
            dtypes[c->precision]);
    script_real(out, c->gradient_clipping);
    fputc('\n', out);
    script_initial(out, h);
    script_gradients(out, h);
    script_groups(out, c);
    if (!mode)
        put_config(out, c);
    fputs(model_text, out);
    mode ? put_torch(out, c, mode) : put_deepspeed(out);
    put_steps(out, c, mode);
    return file_flush(out, "the script");
}

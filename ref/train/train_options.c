// SPDX-License-Identifier: Apache-2.0
#include "ref/train/train_options.h"

#include "ref/arithmetic/isa.h"
#include "ref/model/names/model_find.h"
#include "ref/train/device.h"
#include "base/err.h"
#include "base/help.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

enum { WORLD_MAX = 1024, WORLD_DEFAULT = 2 };

static const char *const examples[] = {
    "zerogauge train --preset zero3 --world 4 --steps 50 --verify",
    "zerogauge train --preset zero_infinity --nvme-path . --checkpoint saved --every 20",
    "zerogauge train --preset zero3 --lora rank=8,alpha=16 --save tuned",
    "zerogauge train --config ds.json --set zero_optimization.stage=2 --print-config",
    NULL,
};

static const struct help help = {
    .usage = "(--preset PRESET | --config FILE) [OPTION...]",
    .text = "Trains a model at a ZeRO stage under a DeepSpeed JSON configuration.",
    .examples = examples,
};

static int parse(int argc, const char **argv, struct train_options *a)
{
    enum { TEXT = POPT_ARG_STRING, INT = POPT_ARG_INT | POPT_ARGFLAG_SHOW_DEFAULT, LIST = POPT_ARG_ARGV };
    enum { LONG = POPT_ARG_LONGLONG | POPT_ARGFLAG_SHOW_DEFAULT, FLAG = POPT_ARG_NONE };
    struct poptOption what[] = {
        {"preset", 'p', TEXT, &a->preset, 0, "a built-in configuration; `zerogauge help presets` lists them", "PRESET"},
        {"config", 'c', TEXT, &a->config_path, 0, "a configuration: DeepSpeed JSON or Accelerate YAML", "FILE"},
        {"set", '\0', LIST, &a->set, 0, "override a key of the configuration; repeatable", "PATH.TO.KEY=VALUE"},
        {"print-config", '\0', FLAG, &a->print_config, 0, "print the effective configuration and exit", NULL},
        {"model", 'm', TEXT, &a->model, 0,
         "the model (default: gpt-tiny): one that `zerogauge help models` lists, or a GPT or a Llama of any "
         "size, such as gpt:layers=24,width=512,heads=8",
         "MODEL"},
        {"lora", '\0', TEXT, &a->lora, 0,
         "freeze the model and train low-rank adapters of its matrices: targets are names of modules or all-linear "
         "(default: alpha as the rank, targets=c_attn)",
         "rank=8,alpha=16,targets=NAME+..."},
        {"text", '\0', TEXT, &a->text_path, 0, "train on this file instead of the King James Bible", "FILE"},
        {"load-weights", '\0', TEXT, &a->weights, 0, "start from the parameters in this safetensors file", "FILE"},
        {"steps", 's', LONG, &a->steps, 0, "optimizer steps, including skipped ones", "N"},
        {"seed", '\0', LONG, &a->seed, 0, "seed of parameters and samples", "N"},
        POPT_TABLEEND,
    };
    struct poptOption how[] = {
        {"world", 'w', POPT_ARG_INT, &a->world, HELP_ABOVE_ZERO,
         "ranks: threads of this process, or the processes of mpirun or srun (default: 2, or the launcher's)", "N"},
        {"mesh", '\0', TEXT, &a->mesh, 0,
         "degrees of parallelism: replicate=R,shard=S,tensor=T,pipeline=P,expert=E (default: one shard group)", "MESH"},
        {"sequence-parallel", '\0', FLAG, &a->sequence_parallel, 0,
         "divide the sequence over the ranks of tensor parallelism as well (mesh tensor=T, model NAME:blocks=B)", NULL},
        {"threads", '\0', POPT_ARG_INT, &a->threads, HELP_ABOVE_ZERO, "threads of each rank (default: cores / ranks)",
         "N"},
        {"products", '\0', TEXT, &a->products, 0,
         "float: as matmul.h defines them; bf16: a model in bf16 on the host by the processor's instructions for it; "
         "cublas: a model in fp32 on a GPU by cuBLAS. Sums in both have the library's own order (default: float)",
         "float|bf16|cublas"},
        {"isa", '\0', TEXT, &a->isa, 0,
         "build of the kernels, all with the same bits: scalar, avx2 or avx512, and on ARM scalar, neon or sve "
         "(default: "
         "the processor's best)",
         "NAME"},
        {"device", '\0', TEXT, &a->device, 0,
         "cpu: host memory serves as the device; cuda: GPUs, which the ranks share (default: cpu)", "cpu|cuda"},
        {"schedule", '\0', TEXT, &a->schedule, 0,
         "schedule of operations (default: overlap), also chaos:SEED: a random order, with every page locked that an "
         "operation does not declare",
         "overlap|serial"},
        {"emulate", '\0', TEXT, &a->emulate, 0, "throttle lanes to rates in GB/s, such as h2d=12,d2h=12,nvme-read=3.2",
         "LANE=GB/S,..."},
        {"inject", '\0', TEXT, &a->inject, 0,
         "inject faults, such as nvme:eio@K, nvme:flip@K or rank:R:die@STEP; an unknown fault lists all", "FAULT,..."},
        POPT_TABLEEND,
    };
    struct poptOption where[] = {
        {"device-memory", '\0', TEXT, &a->device_memory, 0,
         "limit of each rank's device memory, such as 256MiB (default: none)", "SIZE"},
        {"host-memory", '\0', TEXT, &a->host_memory, 0, "limit of each rank's host memory (default: none)", "SIZE"},
        {"nvme-space", '\0', TEXT, &a->nvme_space, 0, "limit of each rank's bytes on NVMe (default: none)", "SIZE"},
        {"nvme-path", '\0', LIST, &a->nvme_path, 0,
         "a folder for states on NVMe; repeatable: states are striped over all", "DIR"},
        {"engine", '\0', TEXT, &a->engine, 0, "storage engine (default: the configuration's)", "libaio|io_uring"},
        {"buffered", '\0', FLAG, &a->buffered, 0, "use the page cache instead of O_DIRECT; the result says so", NULL},
        {"no-swap-checksum", '\0', FLAG, &a->no_swap_checksum, 0, "do not verify checksums of data read from NVMe",
         NULL},
        POPT_TABLEEND,
    };
    struct poptOption checkpoints[] = {
        {"save", '\0', TEXT, &a->save, 0, "save a checkpoint in this folder at the end and on interruption", "DIR"},
        {"every", '\0', POPT_ARG_LONGLONG, &a->every, HELP_ABOVE_ZERO, "also save after every N steps", "N"},
        {"async-save", '\0', FLAG, &a->async_save, 0,
         "write these while steps go on, from a copy in host memory; the save at the end is waited for", NULL},
        {"resume", '\0', TEXT, &a->resume, 0, "continue from this checkpoint, or from the newest one in this folder",
         "DIR"},
        {"checkpoint", '\0', TEXT, &a->checkpoint, 0, "--save DIR, and --resume DIR if it has a checkpoint", "DIR"},
        POPT_TABLEEND,
    };
    struct poptOption result[] = {
        {"verify", '\0', TEXT | POPT_ARGFLAG_OPTIONAL, &a->verify, 'V',
         "compare every bit with unsharded Adam, in the schedule of a run that is not compared; each: wait after every "
         "step, and compare all states",
         "each"},
        {"json", '\0', FLAG, &a->json, 0, "print one line of JSON", NULL},
        {"trace", '\0', TEXT, &a->trace, 0, "write a timeline for Chrome or Perfetto", "FILE"},
        POPT_TABLEEND,
    };
    const struct poptOption options[] = {
        {NULL, '\0', POPT_ARG_INCLUDE_TABLE, what, 0, "Model and data:", NULL},
        {NULL, '\0', POPT_ARG_INCLUDE_TABLE, how, 0, "Execution:", NULL},
        {NULL, '\0', POPT_ARG_INCLUDE_TABLE, where, 0, "Memory and storage:", NULL},
        {NULL, '\0', POPT_ARG_INCLUDE_TABLE, checkpoints, 0, "Checkpoints:", NULL},
        {NULL, '\0', POPT_ARG_INCLUDE_TABLE, result, 0, "Output:", NULL},
        HELP_OPTIONS(options, &help) POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, options, 0);
    int code;
    while ((code = help_next(context, options)) == 'V')
        a->verifies = 1;
    int rc = help_no_arguments(context, argv, code);
    poptFreeContext(context);
    return rc;
}

static int check(const struct train_options *a)
{
    if (!a->preset == !a->config_path)
        return err_set(ERR_USAGE, "give one of --preset NAME and --config FILE");
    if (a->world > WORLD_MAX)
        return err_set(ERR_USAGE, "--world %d: expected 1 to %d", a->world, WORLD_MAX);
    if (a->verify && strcmp(a->verify, "each") != 0)
        return err_set(ERR_USAGE, "--verify=%s: expected --verify or --verify=each", a->verify);
    if (a->steps < 1)
        return err_set(ERR_USAGE, "--steps %lld: expected at least 1", a->steps);
    if (a->seed < 0)
        return err_set(ERR_USAGE, "--seed %lld: expected 0 or more", a->seed);
    if (a->products && strcmp(a->products, "bf16") != 0 && strcmp(a->products, "float") != 0 &&
        strcmp(a->products, "cublas") != 0)
        return err_set(ERR_USAGE, "--products %.32s: expected float, bf16 or cublas", a->products);
    if (a->isa) {
        enum isa isa;
        TRY(isa_parse(a->isa, &isa));
        isa_set(isa);
    }
    if (a->trace && !*a->trace)
        return err_set(ERR_USAGE, "--trace: expected the name of a file");
    if (a->checkpoint && (a->save || a->resume))
        return err_set(ERR_USAGE, "--checkpoint includes --save and --resume: omit them");
    if (a->every && !a->save && !a->checkpoint)
        return err_set(ERR_USAGE, "--every needs --save DIR or --checkpoint DIR");
    if (a->async_save && !a->every)
        return err_set(ERR_USAGE, "--async-save needs --every N: the save at the end is waited for");
    return ERR_NONE;
}

int train_options_parse(int argc, const char **argv, struct train_options *a)
{
    *a = (struct train_options){.steps = 100, .seed = 1};
    TRY(parse(argc, argv, a));
    TRY(check(a));
    TRY(launcher_find(&a->launcher));
    int given = a->world;
    // In a launcher's world the configuration compares the mesh with it.
    if (a->mesh && given == 0 && a->launcher.world <= 1) {
        struct mesh mesh;
        TRY(mesh_parse(a->mesh, &mesh));
        given = mesh_world(&mesh);
    }
    TRY(launcher_world(&a->launcher, given, WORLD_DEFAULT, &a->world));
    if (a->world > WORLD_MAX && a->launcher.world == 0)
        return err_set(ERR_USAGE, "--mesh %s: expected at most %d ranks", a->mesh, WORLD_MAX);
    return ERR_NONE;
}

static size_t list_length(char *const *list)
{
    size_t length = 0;
    while (list && list[length])
        length++;
    return length;
}

// 0 also of an unknown model, which is refused later.
static size_t width_of(const struct train_options *a)
{
    const struct model *model;
    bool is_found = a->config_path && model_find(a->model ? a->model : TRAIN_MODEL_DEFAULT, &model) == ERR_NONE;
    return is_found ? model_width(model) : 0;
}

int train_options_config(const struct train_options *a, struct config *config, struct config_notes *notes)
{
    size_t set_count = list_length(a->set);
    const char *set[set_count + 3];
    char mesh[sizeof "zerogauge.mesh=" + (a->mesh ? strlen(a->mesh) : 0)];
    for (size_t i = 0; i < set_count; i++)
        set[i] = a->set[i];
    if (a->mesh) {
        stpcpy(stpcpy(mesh, "zerogauge.mesh="), a->mesh);
        set[set_count++] = mesh;
    }
    if (a->sequence_parallel)
        set[set_count++] = "zerogauge.sequence_parallel=true";
    if (a->async_save)
        set[set_count++] = "zerogauge.async_save=true";
    const struct config_options options = {
        .world = a->world,
        .steps = (uint64_t)a->steps,
        .width = width_of(a),
        .set = set,
        .set_count = set_count,
        .nvme_paths = (const char *const *)a->nvme_path,
        .nvme_path_count = list_length(a->nvme_path),
        .engine = a->engine,
    };
    TRY(a->preset ? config_load_preset(a->preset, &options, config, notes)
                  : config_load_file(a->config_path, &options, config, notes));
    if (a->lora && strlen(a->lora) >= sizeof config->lora)
        return err_set(ERR_USAGE, "--lora: has %zu characters, expected at most %zu", strlen(a->lora),
                       sizeof config->lora - 1);
    if (a->lora)
        strcpy(config->lora, a->lora);
    return ERR_NONE;
}

// Without the option the budget stays 0: no limit.
static int parse_budget(const char *option, const char *text, uint64_t *out)
{
    if (!text)
        return ERR_NONE;
    int rc = size_parse(text, out);
    if (rc != ERR_NONE)
        return err_prefix(rc, "%s", option);
    return *out > 0 ? ERR_NONE : err_set(ERR_USAGE, "%s %s: expected more than 0 bytes", option, text);
}

int train_options_setting(const struct train_options *a, struct train_setting *out)
{
    *out = (struct train_setting){
        .world = a->world,
        .steps = (uint64_t)a->steps,
        .seed = (uint64_t)a->seed,
        .threads = a->threads,
        .bf16_products = a->products && strcmp(a->products, "bf16") == 0,
        .library_products = a->products && strcmp(a->products, "cublas") == 0,
        .verify = !a->verifies ? TRAIN_VERIFY_NOT
                  : a->verify  ? TRAIN_VERIFY_EACH
                               : TRAIN_VERIFY,
        .buffered = a->buffered,
        .swap_checksum = !a->no_swap_checksum,
    };
    TRY(device_find(a->device, a->launcher.world > 0, out));
    TRY(executor_schedule_parse(a->schedule ? a->schedule : "overlap", &out->schedule));
    TRY(parse_budget("--device-memory", a->device_memory, &out->device_memory_bytes));
    TRY(parse_budget("--host-memory", a->host_memory, &out->host_memory_bytes));
    TRY(parse_budget("--nvme-space", a->nvme_space, &out->nvme_space_bytes));
    if (a->emulate)
        TRY(emulation_parse(a->emulate, &out->emulation));
    if (a->inject)
        TRY(inject_parse(a->inject, &out->inject));
    return ERR_NONE;
}

static void list_free(char **list)
{
    for (char **value = list; value && *value; value++)
        free(*value);
    free(list);
}

void train_options_close(struct train_options *a)
{
    char *texts[] = {a->preset,      a->config_path, a->model,  a->schedule,   a->text_path, a->device_memory,
                     a->host_memory, a->nvme_space,  a->engine, a->emulate,    a->trace,     a->inject,
                     a->mesh,        a->save,        a->resume, a->checkpoint, a->weights,   a->device,
                     a->lora,        a->products,    a->isa,    a->verify};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        free(texts[i]);
    list_free(a->set);
    list_free(a->nvme_path);
}

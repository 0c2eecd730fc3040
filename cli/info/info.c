// SPDX-License-Identifier: Apache-2.0
// The hardware and software of this machine, and the parts of this build, with the reason for each missing one.
#include "cli/info/info.h"

#include "ref/arithmetic/isa.h"
#include "ref/arithmetic/onednn.h"
#include "ref/arithmetic/product_library.h"
#include "base/build.h"
#include "base/err.h"
#include "base/help.h"
#include "ref/tier/io.h"
#include "base/processor.h"
#include "base/safe_text.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>

static json_t *isa_json(void)
{
    json_t *names = json_array();
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        enum isa parsed;
        if (isa_parse(isa_name((enum isa)isa), &parsed) == ERR_NONE)
            json_array_append_new(names, json_string(isa_name(parsed)));
    }
    return names;
}

// The optional parts. The note of a missing part gives the reason and the replacement.
static const struct {
    const char *name;
    bool built_in;
    const char *note;
} backends[] = {
    {"local", true, "ranks are threads of one process"},
#ifdef ZG_HAVE_MPI
    {"mpi", true, "ranks are processes that mpirun or srun starts"},
#else
    {"mpi", false, "not found at build time (install libopenmpi-dev): ranks are threads"},
#endif
#ifdef ZG_HAVE_NCCL
    {"nccl", true, "collectives between GPUs, for ranks with one GPU each"},
#else
    {"nccl", false, "not found at build time (needs nvcc and libnccl-dev): ranks are threads or processes"},
#endif
};
enum { BACKEND_COUNT = sizeof backends / sizeof backends[0] };

// An engine of the NVMe tier, tried on the kernel: containers often forbid io_uring.
static json_t *engine_json(enum nvme_engine engine)
{
    struct io_queue *queue;
    bool usable = io_queue_open(io_engine_of(engine), 1, &queue) == ERR_NONE;
    if (usable)
        io_queue_close(queue);
    return json_pack("{s:s, s:b, s:b, s:s}", "name", io_engine_of(engine)->name, "built_in", 1, "usable", usable,
                     "note", usable ? "I/O engine of the NVMe tier, usable" : err_message());
}

static json_t *onednn_json(void)
{
    char note[128];
    bool usable = onednn_load() == ERR_NONE;
    snprintf(note, sizeof note, "products of GPTs in bf16 (train --products bf16): %s", onednn_describe());
    return json_pack("{s:s, s:b, s:s}", "name", "onednn", "built_in", usable, "note", usable ? note : err_message());
}

static json_t *product_library_json(const struct product_library *library)
{
    return json_pack("{s:s, s:b, s:s+}", "name", library->key, "built_in", library->multiply != NULL, "note",
                     "a baseline of bench product: ", library->name);
}

static json_t *backends_json(const json_t *cuda)
{
    json_t *list = json_array();
    for (int i = 0; i < BACKEND_COUNT; i++)
        json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "name", backends[i].name, "built_in",
                                              backends[i].built_in, "note", backends[i].note));
    info_cuda_backends(cuda, list);
    json_array_append_new(list, onednn_json());
    json_array_append_new(list, product_library_json(&product_libraries()[0]));
    for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++)
        json_array_append_new(list, engine_json((enum nvme_engine)engine));
    return list;
}

json_t *info_collect(void)
{
    static const char *const here[] = {".", NULL};
    char emulator[PROCESSOR_NAME_BYTES];
    bool emulated = processor_is_emulated(emulator);
    json_t *cuda = info_cuda(), *parts = backends_json(cuda);
    return json_pack("{s:s, s:o, s:o, s:o, s:{s:o, s:s}, s:o, s:o, s:o}", "record", "info", "build", build_facts(),
                     "machine", info_machine(here), "emulator", emulated ? text_json(emulator) : json_null(), "isa",
                     "available", isa_json(), "used", isa_name(isa_now()), "backends", parts, "cuda", cuda, "programs",
                     info_programs());
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static long long number_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

// Prints a size such as "32 MiB".
static void print_bytes(long long bytes)
{
    char text[SIZE_TEXT_BYTES];
    fputs(size_short_text((uint64_t)bytes, text), stdout);
}

static const char *text_or(const json_t *object, const char *key, const char *other)
{
    const char *text = text_of(object, key);
    return text ? text : other;
}

// Prints the limits of this process, if it may not use the whole machine.
static void print_limits(const json_t *machine)
{
    const json_t *quota = json_object_get(machine, "processor_quota");
    const json_t *memory = json_object_get(machine, "memory_limit_bytes");
    const json_t *locked = json_object_get(machine, "locked_memory_limit_bytes");
    printf("limits      %lld of %lld threads", number_of(machine, "allowed_threads"), number_of(machine, "threads"));
    if (json_is_number(quota))
        printf(", processor time of %.4g", json_number_value(quota));
    if (json_is_integer(memory)) {
        printf(", memory ");
        print_bytes(json_integer_value(memory));
    }
    if (json_is_integer(locked)) {
        printf(", locked memory ");
        print_bytes(json_integer_value(locked));
    }
    printf("\n");
}

static void print_machine(const json_t *machine)
{
    size_t index;
    const json_t *item;
    printf("kernel      %s, clock by %s, governor: %s\n", text_of(machine, "kernel"),
           text_or(machine, "clock_source", "unknown"), text_or(machine, "governor", "unknown"));
    print_limits(machine);
    printf("inside      virtual machine: %s, container: %s\n", text_or(machine, "hypervisor", "no"),
           text_or(machine, "container", "no"));
    json_array_foreach (json_object_get(machine, "gpus"), index, item)
        info_gpu_print(item);
    if (json_array_size(json_object_get(machine, "gpus")) == 0)
        printf("GPU         NVIDIA's driver lists none: the device tier is host memory\n");
    json_array_foreach (json_object_get(machine, "disks"), index, item) {
        printf("disk        %s on %s, %s, ", text_or(item, "file_system", "unknown"),
               text_or(item, "device", "unknown"), text_or(item, "model", "model unknown"));
        print_bytes(number_of(item, "available_bytes"));
        printf(" of ");
        print_bytes(number_of(item, "bytes"));
        printf(" free (%s)\n", text_of(item, "folder"));
    }
}

// The purpose of a program is printed whether it is installed or not.
static void print_software(const json_t *info)
{
    size_t index;
    const json_t *item;
    const char *name, *path;
    json_t *libraries = json_object_get(json_object_get(info, "build"), "libraries"), *version;
    json_object_foreach (libraries, name, version)
        printf("%-11s %s\n", name, json_string_value(version));
    json_array_foreach (json_object_get(info, "backends"), index, item)
        printf("%-11s %s: %s\n", text_of(item, "name"),
               json_is_true(json_object_get(item, "built_in")) ? "built in" : "absent", text_of(item, "note"));
    json_array_foreach (json_object_get(info, "programs"), index, item) {
        name = text_of(item, "name");
        if ((path = text_of(item, "path")) != NULL)
            printf("%-11s %s: %s\n", name, text_or(item, "version", path), text_of(item, "enables"));
        else
            printf("%-11s absent (apt-get install %s): %s\n", name, text_of(item, "package"), text_of(item, "enables"));
    }
}

static void info_print(const json_t *info)
{
    const json_t *machine = json_object_get(info, "machine"), *isa = json_object_get(info, "isa");
    const json_t *build = json_object_get(info, "build");
    size_t index;
    const json_t *item;
    printf("zerogauge   %s, commit %.12s%s, compiled by %s\n", text_of(build, "version"),
           text_or(build, "commit", "unknown"), json_is_true(json_object_get(build, "dirty")) ? " with changes" : "",
           text_of(build, "compiler"));
    printf("processor   %s, %s", text_of(machine, "processor"), text_of(machine, "architecture"));
    if (text_of(info, "emulator"))
        printf(", emulated by %s", text_of(info, "emulator"));
    printf("\n");
    printf("topology    sockets %lld, cores %lld, threads %lld, NUMA nodes %lld\n", number_of(machine, "sockets"),
           number_of(machine, "cores"), number_of(machine, "threads"), number_of(machine, "numa_nodes"));
    printf("caches     ");
    json_array_foreach (json_object_get(machine, "caches"), index, item) {
        printf("%s %s %lld x ", index ? "," : "", text_of(item, "name"), number_of(item, "count"));
        print_bytes(number_of(item, "bytes"));
    }
    printf("\nmemory      ");
    print_bytes(number_of(machine, "memory_bytes"));
    json_array_foreach (json_object_get(machine, "numa_node_bytes"), index, item) {
        printf(", node %zu ", index);
        print_bytes((long long)json_integer_value(item));
    }
    printf(", transparent huge pages: %s%s\n", text_of(machine, "transparent_huge_pages"),
           json_is_true(json_object_get(machine, "gives_free_memory_back"))
               ? "; the host takes free pages back: memory is slow when it is first touched"
               : "");
    print_machine(machine);
    info_cuda_print(json_object_get(info, "cuda"));
    printf("vectors     ");
    json_array_foreach (json_object_get(isa, "available"), index, item)
        printf("%s%s", index ? ", " : "", json_string_value(item));
    printf("; used: %s\n", text_of(isa, "used"));
    print_software(info);
}

static const char *const examples[] = {
    "zerogauge info",
    "zerogauge info --json | jq .machine.processor",
    "zerogauge info --mesh replicate=2,shard=4 --world 8",
    NULL,
};

static const struct help help = {
    .usage = "[OPTION...]",
    .text =
        "Shows this machine's hardware and software, and what this binary can use of it; or the ranks and groups of "
        "a mesh.",
    .examples = examples,
};

struct info_options {
    int json, world;
    char *mesh;
};

// ERR_USAGE for anything but the options.
static int info_parse(int argc, const char **argv, struct info_options *o)
{
    struct poptOption table[] = {
        {"json", '\0', POPT_ARG_NONE, &o->json, 0, "print one line of JSON", NULL},
        {"mesh", '\0', POPT_ARG_STRING, &o->mesh, 0,
         "show every rank's coordinates and groups on a mesh, such as replicate=2,shard=4,tensor=2", "MESH"},
        {"world", 'w', POPT_ARG_INT, &o->world, 0, "the ranks that the mesh must have", "N"},
        HELP_OPTIONS(table, &help) POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, table, 0);
    int code = help_no_arguments(context, argv, poptGetNextOpt(context));
    if (code == ERR_NONE && (o->world < 0 || (o->world > 0 && !o->mesh)))
        code =
            err_set(ERR_USAGE, o->mesh ? "--world %d: expected 1 or more" : "--world %d needs --mesh MESH", o->world);
    poptFreeContext(context);
    return code;
}

static int info_of(const struct info_options *o, json_t **out)
{
    if (o->mesh)
        return info_mesh_collect(o->mesh, o->world, out);
    *out = info_collect();
    return *out ? ERR_NONE : err_set(ERR_IO, "the facts about this machine could not be read");
}

int info_main(int argc, const char **argv)
{
    struct info_options options = {0};
    json_t *info = NULL;
    int code = info_parse(argc, argv, &options);
    if (code == ERR_NONE)
        code = info_of(&options, &info);
    if (info && options.json) {
        json_dumpf(info, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
        putchar('\n');
    } else if (info) {
        (options.mesh ? info_mesh_print : info_print)(info);
    }
    json_decref(info);
    free(options.mesh);
    if (code != ERR_NONE)
        text_error("zerogauge info");
    return err_exit_status(code);
}

// SPDX-License-Identifier: Apache-2.0
// What this machine has, asked of hwloc, and which parts were built in, with the reason where one was not.
#include "info.h"

#include "adam.h"
#include "err.h"
#include "io.h"

#include <cblas.h>
#include <hwloc.h>
#include <popt.h>

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static json_t *caches_json(hwloc_topology_t topology)
{
    static const struct {
        hwloc_obj_type_t type;
        const char *name;
    } levels[] = {{HWLOC_OBJ_L1CACHE, "L1d"}, {HWLOC_OBJ_L2CACHE, "L2"}, {HWLOC_OBJ_L3CACHE, "L3"}};
    json_t *caches = json_array();
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        int count = hwloc_get_nbobjs_by_type(topology, levels[i].type);
        if (count <= 0)
            continue;
        hwloc_obj_t first = hwloc_get_obj_by_type(topology, levels[i].type, 0);
        json_array_append_new(caches, json_pack("{s:s, s:I, s:i}", "name", levels[i].name, "bytes",
                                                (json_int_t)first->attr->cache.size, "count", count));
    }
    return caches;
}

static json_t *isa_json(void)
{
    json_t *names = json_array();
    for (int isa = 0; isa < ADAM_ISA_COUNT; isa++) {
        enum adam_isa parsed;
        if (adam_isa_parse(adam_isa_name((enum adam_isa)isa), &parsed) == ERR_NONE)
            json_array_append_new(names, json_string(adam_isa_name(parsed)));
    }
    return names;
}

static const char *processor_model(hwloc_topology_t topology)
{
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    if (!model)
        model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), "CPUModel");
    return model ? model : "unknown";
}

// The word in brackets of a file such as "always [madvise] never".
static void transparent_huge_pages(char out[32])
{
    strcpy(out, "unknown");
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (!file)
        return;
    if (fscanf(file, "%*[^[][%31[^]]", out) != 1)
        strcpy(out, "unknown");
    fclose(file);
}

static json_t *machine_json(void)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return NULL;
    if (hwloc_topology_load(topology) != 0) {
        hwloc_topology_destroy(topology);
        return NULL;
    }
    struct utsname system;
    uname(&system);
    char huge_pages[32];
    transparent_huge_pages(huge_pages);
    json_t *machine = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:o, s:I, s:s, s:s, s:s}", "processor", processor_model(topology), "sockets",
        hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PACKAGE), "cores",
        hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE), "threads",
        hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU), "numa_nodes",
        hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE), "caches", caches_json(topology), "memory_bytes",
        (json_int_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE), "transparent_huge_pages", huge_pages, "kernel",
        system.release, "architecture", system.machine);
    hwloc_topology_destroy(topology);
    return machine;
}

// What a reader might look for. A part that is absent says why, and what stands in its place.
static const struct {
    const char *name;
    bool built_in;
    const char *note;
} backends[] = {
    {"local", true, "ranks are threads of one process"},
    {"mpi", false, "not part of this version"},
    {"nccl", false, "not part of this version"},
    {"cuda", false, "not part of this version: the device tier is host memory under a budget"},
};
enum { BACKEND_COUNT = sizeof backends / sizeof backends[0] };

// An engine of the NVMe tier, asked of the kernel: containers often forbid io_uring.
static json_t *engine_json(enum nvme_engine engine)
{
    struct io_queue *queue;
    bool usable = io_queue_open(io_engine_of(engine), 1, NULL, &queue) == ERR_NONE;
    if (usable)
        io_queue_close(queue);
    return json_pack("{s:s, s:b, s:b, s:s}", "name", io_engine_of(engine)->name, "built_in", 1, "usable", usable,
                     "note", usable ? "I/O engine of the NVMe tier, usable here" : err_message());
}

static json_t *backends_json(void)
{
    json_t *list = json_array();
    for (int i = 0; i < BACKEND_COUNT; i++)
        json_array_append_new(list, json_pack("{s:s, s:b, s:s}", "name", backends[i].name, "built_in",
                                              backends[i].built_in, "note", backends[i].note));
    for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++)
        json_array_append_new(list, engine_json((enum nvme_engine)engine));
    return list;
}

#ifdef __clang__
static const char compiler[] = __VERSION__;
#else
static const char compiler[] = "GCC " __VERSION__;
#endif

json_t *info_collect(void)
{
    static const char *const threading[] = {"one thread", "pthreads", "OpenMP"};
    int kind = openblas_get_parallel();
    return json_pack("{s:s, s:s, s:s, s:o, s:{s:o, s:s}, s:{s:s, s:s, s:s}, s:o}", "record", "info", "version",
                     ZG_VERSION, "compiler", compiler, "machine", machine_json(), "isa", "available", isa_json(),
                     "used", adam_isa_name(adam_isa_now()), "openblas", "config", openblas_get_config(), "core",
                     openblas_get_corename(), "threading", kind >= 0 && kind < 3 ? threading[kind] : "unknown",
                     "backends", backends_json());
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static long long number_of(const json_t *object, const char *key)
{
    return (long long)json_integer_value(json_object_get(object, key));
}

// "32 MiB", in the largest unit that leaves at least one.
static void print_bytes(long long bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    printf("%.4g %s", value, units[unit]);
}

static void info_print(const json_t *info)
{
    const json_t *machine = json_object_get(info, "machine"), *isa = json_object_get(info, "isa");
    const json_t *openblas = json_object_get(info, "openblas");
    size_t index;
    const json_t *item;
    printf("zerogauge   %s, compiled by %s\n", text_of(info, "version"), text_of(info, "compiler"));
    printf("processor   %s, %s\n", text_of(machine, "processor"), text_of(machine, "architecture"));
    printf("topology    sockets %lld, cores %lld, threads %lld, NUMA nodes %lld\n", number_of(machine, "sockets"),
           number_of(machine, "cores"), number_of(machine, "threads"), number_of(machine, "numa_nodes"));
    printf("caches     ");
    json_array_foreach(json_object_get(machine, "caches"), index, item)
    {
        printf("%s %s %lld x ", index ? "," : "", text_of(item, "name"), number_of(item, "count"));
        print_bytes(number_of(item, "bytes"));
    }
    printf("\nmemory      ");
    print_bytes(number_of(machine, "memory_bytes"));
    printf(", transparent huge pages: %s\n", text_of(machine, "transparent_huge_pages"));
    printf("kernel      %s\n", text_of(machine, "kernel"));
    printf("vectors     ");
    json_array_foreach(json_object_get(isa, "available"), index, item)
        printf("%s%s", index ? ", " : "", json_string_value(item));
    printf("; used: %s\n", text_of(isa, "used"));
    printf("openblas    %s, core %s, threads by %s\n", text_of(openblas, "config"), text_of(openblas, "core"),
           text_of(openblas, "threading"));
    json_array_foreach(json_object_get(info, "backends"), index, item)
        printf("%-11s %s: %s\n", text_of(item, "name"),
               json_is_true(json_object_get(item, "built_in")) ? "built in" : "absent", text_of(item, "note"));
}

// ERR_USAGE for anything but the options.
static int info_parse(int argc, const char **argv, int *json, int *help)
{
    struct poptOption table[] = {
        {"json", '\0', POPT_ARG_NONE, json, 0, "one JSON line", NULL},
        {"help", '?', POPT_ARG_NONE, help, 0, "show this text", NULL},
        POPT_TABLEEND,
    };
    poptContext context = poptGetContext(NULL, argc, argv, table, 0);
    int code = ERR_NONE, rc = poptGetNextOpt(context);
    if (rc < -1)
        code = err_set(ERR_USAGE, "%s: %s", poptBadOption(context, POPT_BADOPTION_NOALIAS), poptStrerror(rc));
    else if (poptPeekArg(context))
        code = err_set(ERR_USAGE, "'%s' is not an option", poptPeekArg(context));
    else if (*help)
        poptPrintHelp(context, stdout, 0);
    poptFreeContext(context);
    return code;
}

int info_main(int argc, const char **argv)
{
    int json = 0, help = 0, code = info_parse(argc, argv, &json, &help);
    json_t *info = NULL;
    if (code == ERR_NONE && !help && !(info = info_collect()))
        code = err_set(ERR_IO, "the system does not tell what machine this is");
    if (info && json) {
        json_dumpf(info, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
        putchar('\n');
    } else if (info) {
        info_print(info);
    }
    json_decref(info);
    if (code != ERR_NONE)
        fprintf(stderr, "zerogauge info: %s\n", err_message());
    return err_exit_status(code);
}

// SPDX-License-Identifier: Apache-2.0
// Test support: one sample of each record, and result files made of them in a temporary folder.
#pragma once

#include "base/digest.h"
#include "base/err.h"
#include "results/record/record_check.h"
#include "results/record/record_verify.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAMPLE_SUITE                                                                                                   \
    "{\"version\":\"0.1.0\",\"edition\":1,\"commit\":\"0123456789abcdef0123456789abcdef01234567\",\"dirty\":false,"    \
    "\"compiler\":\"GCC 12\",\"flags\":\"-O3\",\"libraries\":{\"jansson\":\"2.14\"},"                                  \
    "\"openblas_warning\":\"OpenBLAS uses kernels for Prescott\"}"
#define SAMPLE_GPU                                                                                                     \
    "{\"model\":\"A GPU\",\"id\":\"0123456789abcdef0123456789abcdef\",\"driver\":\"580.95.05\",\"vbios\":\"96.00\","   \
    "\"ecc\":1,\"mig\":0,\"power_limit_w\":700,\"power_default_w\":700,\"clock_mhz\":345,\"clock_most_mhz\":1980,"     \
    "\"memory_clock_mhz\":2619,\"memory_clock_most_mhz\":2619,\"pcie_generation\":3,\"pcie_generation_most\":5,"       \
    "\"pcie_lanes\":16,\"pcie_lanes_most\":16,\"throttle_reasons\":1}"
#define SAMPLE_MACHINE                                                                                                 \
    "{\"processor\":\"A processor\",\"architecture\":\"x86_64\",\"sockets\":1,\"cores\":2,\"threads\":2,"              \
    "\"numa_nodes\":1,\"numa_node_bytes\":[1024],\"caches\":[{\"name\":\"L2\",\"bytes\":1024,\"count\":2}],"           \
    "\"memory_bytes\":1024,\"transparent_huge_pages\":\"always\",\"huge_pages\":0,\"huge_page_bytes\":2048,"           \
    "\"gpus\":[" SAMPLE_GPU "],\"disks\":[{\"folder\":\"data\",\"file_system\":\"ext4\",\"device\":\"sda\","           \
    "\"model\":\"A disk\",\"rotational\":false,\"bytes\":4096,\"available_bytes\":1024}],\"kernel\":\"6.1\","          \
    "\"clock_source\":\"tsc\",\"governor\":\"performance\",\"hypervisor\":\"KVM\",\"container\":\"docker\","           \
    "\"gives_free_memory_back\":true,"                                                                                 \
    "\"allowed_threads\":2,\"processor_quota\":1.5,\"memory_limit_bytes\":512,\"locked_memory_limit_bytes\":65536}"
#define SAMPLE_RUN                                                                                                     \
    "{\"record\":\"run\",\"schema\":1,\"program\":\"trial\",\"level\":\"quick\","                                      \
    "\"command\":[\"zerogauge\",\"validate\",\"--quick\"],\"started\":\"2026-11-21T15:00:00Z\","                       \
    "\"suite\":" SAMPLE_SUITE ",\"machine\":" SAMPLE_MACHINE                                                           \
    ",\"other_hosts\":[{\"host\":\"node8\",\"rank\":1,\"rank_count\":2,\"machine\":" SAMPLE_MACHINE "}]}"
#define SAMPLE_PART                                                                                                    \
    "{\"record\":\"part\",\"name\":\"bench-adam\",\"command\":[\"zerogauge\",\"bench\",\"adam\"],\"begin_s\":12.1,"    \
    "\"end_s\":19.4,\"status\":0,\"signal\":null,\"reason\":null,\"budget_s\":10.5,\"rank\":0,\"host\":\"node7\"}"
#define SAMPLE_COUNTS(pass)                                                                                            \
    "{\"PASS\":" #pass ",\"EQUIVALENT\":0,\"BOUNDED\":0,\"FAIL\":0,\"BROKEN\":0,\"UNSUPPORTED\":0}"
#define SAMPLE_CONFORMANCE                                                                                             \
    "{\"record\":\"conformance\",\"implementation\":\"the reference\",\"level\":\"quick\",\"verdict\":\"CONFORMS\","   \
    "\"case_count\":3,"                                                                                                \
    "\"requirement_counts\":" SAMPLE_COUNTS(1) "}"
#define SAMPLE_REQUIREMENT                                                                                             \
    "{\"record\":\"requirement\",\"id\":\"R-ADAM-01\",\"must\":true,\"chapter\":\"Adam\",\"title\":\"The update\","    \
    "\"verdict\":\"PASS\",\"finding_counts\":" SAMPLE_COUNTS(3) ",\"rules\":[\"torch\"]}"
// Five samples of a million parameters: 5 x 0.5 ms and, of the baseline, 5 x 0.25 ms.
#define SAMPLE_BENCH                                                                                                   \
    "{\"record\":\"bench\",\"name\":\"adam\",\"case\":{\"step\":\"update\",\"threads\":2},"                            \
    "\"samples\":[0.5,0.4,0.6,0.5,0.5],\"median\":0.5,\"p10\":0.44,\"p90\":0.56,\"unit\":\"ns_per_param\","            \
    "\"lower_is_better\":true,\"items\":1000000,\"elapsed_s\":0.00375,\"verified\":true,"                              \
    "\"yardstick\":{\"name\":\"copy\",\"samples\":[0.25,0.2,0.3,0.25,0.25],\"median\":0.25,\"p10\":0.22,"              \
    "\"p90\":0.28,\"unit\":\"ns_per_param\",\"items\":1000000},\"ratio\":0.5}"
#define SAMPLE_SKIP                                                                                                    \
    "{\"record\":\"skip\",\"name\":\"adam\",\"case\":{\"step\":\"fused\",\"threads\":2},\"needs_bytes\":900,"          \
    "\"available_bytes\":800}"
#define SAMPLE_HEALTH                                                                                                  \
    "{\"record\":\"health\",\"counters\":{\"machine_checks\":{\"before\":0,\"after\":0},"                              \
    "\"memory_errors_corrected\":null,\"frequency_mhz\":{\"before\":2000.5,\"after\":2100}}}"
#define SAMPLE_FIT                                                                                                     \
    "{\"record\":\"fit\",\"model\":\"gpt2-124m\",\"params\":124439808,\"world\":2,\"preset\":\"zero2\","               \
    "\"fits\":true,\"device_bytes\":10,\"host_bytes\":20,\"nvme_bytes\":0,\"device_available_bytes\":10,"              \
    "\"host_available_bytes\":30,\"nvme_available_bytes\":null,\"reason\":null}"
#define SAMPLE_RANGE                                                                                                   \
    "{\"record\":\"band\",\"id\":\"adam-update\",\"bench\":\"adam\",\"case\":{\"step\":\"update\"},"                   \
    "\"metric\":\"ratio\",\"unit\":null,\"at_least\":0.4,\"at_most\":1.2,\"source\":\"this machine's own copy\"}"
// Line 5 is the bench record in sample_file.
#define SAMPLE_FINDING                                                                                                 \
    "{\"record\":\"finding\",\"kind\":\"band\",\"verdict\":\"VALID\",\"id\":\"adam-update\",\"line\":5,\"value\":0.5," \
    "\"text\":\"adam update reaches 0.5 of its copy, 0.4 is asked\"}"
#define SAMPLE_END                                                                                                     \
    "{\"record\":\"end\",\"status\":\"complete\",\"verdict\":\"VALID\",\"reasons\":[],\"elapsed_s\":20,"               \
    "\"other_load\":0.02,\"lines\":8,\"digest\":\"0123456789abcdef0123456789abcdef\"}"
#define SAMPLE_INVALID_END                                                                                             \
    "{\"record\":\"end\",\"status\":\"complete\",\"verdict\":\"INVALID\",\"reasons\":[\"too slow\"],"                  \
    "\"elapsed_s\":20,\"other_load\":0.02,\"lines\":8,\"digest\":\"0123456789abcdef0123456789abcdef\"}"

// A complete file as a null-terminated list of lines; sample_write fills in the lines and digest of `end`.
static const char *const sample_file[] = {SAMPLE_RUN, SAMPLE_CONFORMANCE, SAMPLE_REQUIREMENT, SAMPLE_PART, SAMPLE_BENCH,
                                          SAMPLE_FIT, SAMPLE_RANGE,       SAMPLE_FINDING,     SAMPLE_END,  NULL};

static char sample_folder[] = "/tmp/zerogauge-record-XXXXXX";

// Fixtures of a suite.
static inline void sample_folder_make(void)
{
    cr_assert_not_null(mkdtemp(sample_folder));
}

static inline void sample_folder_remove(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", sample_folder);
    cr_assert_eq(system(command), 0);
}

static inline const char *sample_path(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", sample_folder, name);
    return path;
}

static inline const char *sample_put(const char *name, const char *text, size_t bytes)
{
    const char *path = sample_path(name);
    FILE *file = fopen(path, "w");
    cr_assert(file && fwrite(text, 1, bytes, file) == bytes && fclose(file) == 0);
    return path;
}

// Writes the lines; if the last one is an `end` record, it gets their number and digest. Returns the path.
static inline const char *sample_write(const char *name, const char *const *lines)
{
    char *text;
    size_t bytes, count = 0;
    FILE *file = open_memstream(&text, &bytes);
    for (; lines[count]; count++) {
        json_t *record = lines[count + 1] ? NULL : json_loads(lines[count], 0, NULL);
        const char *kind = json_string_value(json_object_get(record, "record"));
        if (kind && strcmp(kind, "end") == 0) {
            char digest[FILE_DIGEST_BYTES];
            fflush(file);
            digest_text(XXH3_128bits(text, bytes), digest);
            json_object_set_new(record, "lines", json_integer((json_int_t)count));
            json_object_set_new(record, "digest", json_string(digest));
            json_dumpf(record, file, JSON_COMPACT);
            fputc('\n', file);
        } else {
            fprintf(file, "%s\n", lines[count]);
        }
        json_decref(record);
    }
    fclose(file);
    const char *path = sample_put(name, text, bytes);
    free(text);
    return path;
}

// Returns the refusals of a file of these lines; the caller frees the text.
static inline char *sample_refusals(const char *const *lines, size_t *count)
{
    struct result_file file;
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert_eq(result_open(sample_write("a", lines), &file), ERR_NONE, "%s", err_message());
    cr_assert_eq(record_verify(&file, out, count), ERR_NONE);
    result_close(&file);
    fclose(out);
    return text;
}

// Scales a result, which has a time as its unit.
static inline void sample_scale(json_t *record, double factor)
{
    static const char *const keys[] = {"median", "p10", "p90"};
    json_t *samples = json_object_get(record, "samples"), *sample;
    size_t i;
    json_array_foreach (samples, i, sample)
        json_real_set(sample, factor * json_real_value(sample));
    for (i = 0; i < 3; i++)
        json_object_set_new(record, keys[i], json_real(factor * json_number_value(json_object_get(record, keys[i]))));
    json_object_set_new(record, "ratio", json_real(json_number_value(json_object_get(record, "ratio")) / factor));
    json_object_set_new(record, "elapsed_s", json_real(json_number_value(json_object_get(record, "elapsed_s")) * 4));
}

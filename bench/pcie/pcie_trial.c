// SPDX-License-Identifier: Apache-2.0
// A case and its baseline, in turns.
#include "bench/pcie/pcie.h"

#include "base/err.h"
#include "base/size.h"

#include <stdio.h>
#include <stdlib.h>

// Sets of copies that are sampled one after the other and whose rates add up.
struct group {
    struct pcie_copies **sets;
    int count;
};

static void close_group(struct group *group)
{
    for (int i = 0; i < group->count; i++)
        pcie_copies_close(group->sets[i]);
    free(group->sets);
}

static int open_group(const struct pcie_setting settings[], int count, struct group *out)
{
    *out = (struct group){calloc((size_t)count, sizeof *out->sets), 0};
    if (!out->sets)
        return err_set(ERR_MEMORY, "no memory for %d sets of copies", count);
    while (out->count < count) {
        int code = pcie_copies_open(&settings[out->count], &out->sets[out->count]);
        if (code != ERR_NONE) {
            close_group(out);
            return code;
        }
        out->count++;
    }
    return ERR_NONE;
}

// Takes one sample of each set, one after the other. *gb_per_s: the sum of their rates.
static int sample_group(const struct group *group, double *gb_per_s)
{
    *gb_per_s = 0;
    for (int i = 0; i < group->count; i++) {
        double bytes_per_s;
        TRY(pcie_copies_sample(group->sets[i], &bytes_per_s));
        *gb_per_s += bytes_per_s * 1e-9;
    }
    return ERR_NONE;
}

static int sample_beside(const struct pcie_trial *trial, const struct group *group, double *gb_per_s)
{
    if (!trial->reads)
        return sample_group(group, gb_per_s);
    TRY(pcie_reads_begin(trial->reads));
    int code = sample_group(group, gb_per_s);
    int ended = pcie_reads_end(trial->reads);
    return code != ERR_NONE ? code : ended;
}

static int take_turns(const struct pcie_trial *trial, const struct group *ours, const struct group *theirs,
                      struct bench_samples *rates, struct bench_samples *baseline)
{
    size_t warmup = trial->options->warmup, repeat = trial->options->repeat;
    rates->count = baseline->count = 0;
    for (size_t i = 0; i < warmup + repeat; i++) {
        double rate = 0, other = 0;
        bench_progress("pcie %s, %s, %zu bytes, with %s: sample %zu of %zu",
                       pcie_direction_name(trial->setting.memory, trial->setting.direction),
                       pcie_memory_name(trial->setting.memory), trial->setting.block_bytes, trial->beside, i + 1,
                       warmup + repeat);
        if (i % 2)
            TRY(sample_beside(trial, ours, &rate));
        TRY(sample_group(theirs, &other));
        if (i % 2 == 0)
            TRY(sample_beside(trial, ours, &rate));
        if (i < warmup)
            continue;
        rates->values[rates->count++] = rate;
        baseline->values[baseline->count++] = other;
    }
    return ERR_NONE;
}

static double bytes_of(const struct pcie_setting *s)
{
    return (double)s->bytes * s->device_count * (s->direction == PCIE_BOTH ? 2 : 1);
}

const char *pcie_devices_text(const struct pcie_setting *s, char out[PCIE_NAME_BYTES])
{
    if (s->device_count > 1)
        snprintf(out, PCIE_NAME_BYTES, "all %d", s->device_count);
    else if (pcie_memory_is_peer(s->memory))
        snprintf(out, PCIE_NAME_BYTES, "%d and %d", s->first_device,
                 (s->first_device + s->distance) % s->link->device_count);
    else
        snprintf(out, PCIE_NAME_BYTES, "device %d", s->first_device);
    return out;
}

static int peer_of(const struct pcie_setting *s)
{
    return pcie_memory_is_peer(s->memory) ? (s->first_device + s->distance) % s->link->device_count : -1;
}

json_t *pcie_case_json(const struct pcie_setting *s, const char *beside)
{
    int peer = peer_of(s);
    return json_pack("{s:s, s:s, s:I, s:I, s:s, s:i, s:i, s:s, s:o*}", "direction",
                     pcie_direction_name(s->memory, s->direction), "memory", pcie_memory_name(s->memory), "block_bytes",
                     (json_int_t)s->block_bytes, "bytes", (json_int_t)s->bytes, "device", s->link->name, "first_device",
                     s->first_device, "devices", s->device_count, "beside", beside, "peer",
                     peer >= 0 ? json_integer(peer) : NULL);
}

static void row_of(const struct pcie_trial *trial, const struct bench_samples *rates, double baseline, const char *note,
                   char out[200])
{
    const struct pcie_setting *s = &trial->setting;
    char block[SIZE_TEXT_BYTES], devices[PCIE_NAME_BYTES];
    snprintf(out, 200, "%-9s %-5s %-11s %9s %9.3f (%6.3f to %6.3f) %9.3f  %s", pcie_devices_text(s, devices),
             pcie_direction_name(s->memory, s->direction), pcie_memory_name(s->memory),
             size_short_text(s->block_bytes, block), bench_median(rates), bench_quantile(rates, 0.1),
             bench_quantile(rates, 0.9), baseline, note);
}

static json_t *detail_of(const struct pcie_trial *trial)
{
    if (trial->reads && trial->reads->seconds > 0)
        return json_pack("{s:f}", "nvme_GB_per_s", trial->reads->bytes / trial->reads->seconds * 1e-9);
    return trial->matrix ? json_pack("{s:O}", "GB_per_s_from", trial->matrix) : NULL;
}

static int print(const struct pcie_trial *trial, const struct bench_samples *rates,
                 const struct bench_samples *baseline, uint64_t begin_ns)
{
    char row[200], note[PCIE_NAME_BYTES];
    snprintf(note, sizeof note, "with %s", trial->beside);
    row_of(trial, rates, bench_median(baseline), note, row);
    struct bench_record record = {
        .name = "pcie",
        .description = pcie_case_json(&trial->setting, trial->beside),
        .detail = detail_of(trial),
        .unit = "GB/s",
        .items = bytes_of(&trial->setting),
        .baseline_items = bytes_of(&trial->baselines[0]),
        .begin_ns = begin_ns,
        .samples = rates,
        .baseline_name = trial->baseline_name,
        .baseline = baseline,
        .row = row,
    };
    return bench_print(trial->options, &record);
}

// The same samples against what the link carries, or the links between two devices, which is no measurement but a
// bound.
static int print_link(const struct pcie_trial *trial, const struct bench_samples *rates, uint64_t begin_ns)
{
    const struct pcie_setting *s = &trial->setting;
    char row[200], name[PCIE_NAME_BYTES];
    double limit = s->link->gb_per_s(s->first_device, peer_of(s), name) * (s->direction == PCIE_BOTH ? 2 : 1);
    struct bench_samples baseline = {.count = rates->count};
    for (size_t i = 0; i < rates->count; i++)
        baseline.values[i] = limit;
    row_of(trial, rates, limit, limit > 0 ? name : "the link is unknown: NVML does not tell it", row);
    struct bench_record record = {
        .name = "pcie_link",
        .description = pcie_case_json(s, trial->beside),
        .unit = "GB/s",
        .items = bytes_of(s),
        .begin_ns = begin_ns,
        .samples = rates,
        .baseline_name = name,
        .baseline = limit > 0 ? &baseline : NULL,
        .row = row,
    };
    return bench_print(trial->options, &record);
}

int pcie_trial_run(const struct pcie_trial *trial, double *gb_per_s)
{
    struct group ours, theirs;
    struct bench_samples rates, baseline;
    uint64_t begin_ns = clock_now_ns();
    TRY(open_group(&trial->setting, 1, &ours));
    int code = open_group(trial->baselines, trial->baseline_count, &theirs);
    if (code == ERR_NONE) {
        code = take_turns(trial, &ours, &theirs, &rates, &baseline);
        close_group(&theirs);
    }
    close_group(&ours);
    if (code == ERR_NONE && gb_per_s)
        *gb_per_s = bench_median(&rates);
    TRY(code);
    TRY(print(trial, &rates, &baseline, begin_ns));
    return trial->of_link ? print_link(trial, &rates, begin_ns) : ERR_NONE;
}

int pcie_trial_against(const struct pcie_trial *of, const struct pcie_setting *ours, const char *baseline_name,
                       const struct pcie_setting *theirs, int their_count, double *gb_per_s)
{
    struct pcie_trial trial = *of;
    trial.setting = *ours;
    trial.beside = "nothing";
    trial.baseline_name = baseline_name;
    trial.baselines = theirs;
    trial.baseline_count = their_count;
    return pcie_trial_run(&trial, gb_per_s);
}

// SPDX-License-Identifier: Apache-2.0
// One configuration of `zerogauge bench step`: a run of some steps that is compared with unsharded Adam, then timed
// runs, each of which must end with the digest of the first.
#pragma once

#include "bench/harness/bench.h"
#include "bench/harness/bench_device.h"
#include "ref/executor/emulation.h"
#include "ref/executor/executor.h"
#include "ref/mesh/mesh.h"
#include "ref/model/model.h"
#include "ref/model/text.h"

enum { STEP_WORLD = 2, STEP_MESH_MAX = 64 };  // ranks, without a mesh and with one

// A device has buckets of the size that trainers of GPUs use, in elements, so that a step has tens of collectives, not
// thousands.
enum { STEP_DEVICE_BUCKET = 16777216 };

// Buffers for states on their way from NVMe and back: those of four sub-groups. Of the embedding and the first two
// layers, one more than the preset, states then arrive before the step is decided.
enum { STEP_NVME_BUFFERS = 20 };

// The settings that all cases share.
struct step_setting {
    const struct model *model;
    struct text *text;
    struct executor_schedule schedule;
    struct emulation emulation;
    const struct bench_storage *storage;
    struct bench_device device;  // that trains; ranks take its devices round-robin
    int world;                   // ranks of the measured cases: STEP_WORLD, 1, or the mesh's
    const char *mesh_text;       // as in mesh_parse; null: none
    struct mesh mesh;            // of `world` ranks
    size_t micro_batches;        // of a rank of data parallelism in a step; above 1 in a pipeline
    const char *dtype;           // of the model: "fp32" or "bf16"; null: the preset's
    size_t sequences;            // of a rank's micro-batch
    size_t bucket;               // elements that a collective reduces or gathers
    size_t prefetched;           // elements that stage 3 gathers ahead
    bool where;                  // keeps where each run's time went
    uint64_t steps;              // per run, including the unmeasured first ones
};

struct step_case {
    const char *what, *preset;
    int world, ranks_alone;  // ranks_alone: this many concurrent runs of one rank each; 0: one run
    bool on_mesh;            // of the setting
    size_t accumulation;     // micro-batches of a rank of data parallelism in a step
    double shares;           // divides the step's time: ranks that would share its work, if sharing cost nothing
    // Set by step_case_verify:
    char digest[33];
    int tier;                       // the farthest tier that holds states
    bool recomputes;                // backward recomputes the forward
    double bytes[LANE_COUNT];       // that a rank moves per step between tiers and among ranks
    double lane_bytes[LANE_COUNT];  // of these, by operations of the lane: not those that a layer's pass exchanges
    double optimizer_bytes;         // of these, optimizer states to and from NVMe
    double activation_bytes;        // of these, activations from the device to the host; as many return
    uint64_t unlocked_bytes;        // host memory of all ranks that should be pinned and is not
    // Each timed run adds one sample, its median step's:
    struct bench_samples step_ms;              // over shares
    struct bench_samples busy_ms[LANE_COUNT];  // per step, on the busiest rank
    struct bench_samples passes_ms;            // forward and backward, on rank 0
    // Of the last run, null before; step_case_release drops them.
    json_t *timeline;  // of its last step
    json_t *where;     // of all its steps, as lane_kinds_where has it; null unless the setting wants it
};

// The elements of the model's largest layer.
size_t step_largest_layer(const struct model *model);

// Runs once and compares the results with unsharded Adam, bit for bit, and the moved bytes with the formulas.
// ERR_CHECK: they differ.
int step_case_verify(const struct step_setting *setting, struct step_case *c);

// Makes a timed run after step_case_verify; not counted, it warms up. ERR_CHECK: it ended with another digest.
int step_case_measure(const struct step_setting *setting, struct step_case *c, bool counted);

void step_case_release(struct step_case *c);

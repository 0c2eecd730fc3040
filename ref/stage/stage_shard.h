// SPDX-License-Identifier: Apache-2.0
// A rank's shards, and full buckets of all ranks, for checks and checkpoints: outside the executor, which must be idle,
// and uncounted.
#pragma once

#include "ref/stage/stage.h"

// Collective: the full fp32 parameters or moments of one bucket, and its parameters in the model's dtype. full has room
// for the padded bucket.
enum state { STATE_PARAMETER, STATE_EXP_AVG, STATE_EXP_AVG_SQ, STATE_COUNT };
int stage_collect(struct stage *stage, int bucket, enum state state, float *full);
int stage_collect_model_params(struct stage *stage, int bucket, void *full);

// Collective, after a step whose update was not delayed: a trainable bucket's gradient, summed over ranks and
// micro-steps, in the accumulation dtype.
int stage_collect_gradient(struct stage *stage, int bucket, void *full);

// This rank's shard of a state, bucket_shard_real elements in fp32. Frozen buckets have parameters only. Written
// parameters reach the model's dtype as well; stage_regather (collective) then completes the full copies. A bucket
// whose update is of the whole tensor has no second moment: it reads as zeros, and is not written.
int stage_read_shard(struct stage *stage, int bucket, enum state state, float *out);
int stage_write_shard(struct stage *stage, int bucket, enum state state, const float *in);
int stage_regather(struct stage *stage);

// The host's memory in which a trainable bucket's state lives in fp32, in the form of stage_write_shard's `in`; null if
// it lives elsewhere or in another form. Who changes it then calls stage_write_shard with it.
float *stage_shard_memory(struct stage *stage, int bucket, enum state state);

// The same for the parameters that forward sees, in the model's dtype: with the delayed update they are one step late.
int stage_read_model_params(struct stage *stage, int bucket, void *out);
int stage_write_model_params(struct stage *stage, int bucket, const void *in);

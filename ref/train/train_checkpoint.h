// SPDX-License-Identifier: Apache-2.0
// Checkpoints in training: the one that a run continues, and those that it saves.
#pragma once

#include "ref/checkpoint/checkpoint.h"
#include "ref/train/train.h"

struct train_checkpoint_options {
    const char *save;        // folder to save to
    const char *resume;      // folder that holds a checkpoint to continue from
    const char *checkpoint;  // both; there may be none yet
    uint64_t every;          // steps between savings; 0: only at the end
    const char *weights;     // digest of the file of initial parameters; null: they follow from the seed
};

struct train_checkpoints {
    struct checkpoint *from;  // null: the run begins at step 1
    bool repeatable;          // one unsharded run from step 1 makes all its steps
    bool saves;
    struct store store;
    uint64_t every;
    struct facts facts;
};

// Opens the checkpoint to continue and the folder to save to. Notes for the user are lines. ERR_USAGE: there is no
// checkpoint, it belongs to another run, or the folder to save to holds later checkpoints. Close it after an error,
// too, and after the run.
int train_checkpoints_open(const struct train_checkpoint_options *options, const struct train_setting *setting,
                           struct train_checkpoints *out, char notes[NOTES_BYTES]);
void train_checkpoints_close(struct train_checkpoints *checkpoints);

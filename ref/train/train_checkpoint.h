// SPDX-License-Identifier: Apache-2.0
// Checkpoints in training: which one a run continues from, and when it saves.
#ifndef ZG_TRAIN_CHECKPOINT_H
#define ZG_TRAIN_CHECKPOINT_H

#include "ref/checkpoint/checkpoint.h"
#include "ref/train/train.h"

struct train_rank;

struct train_checkpoint_options {
    const char *save;        // folder to save to
    const char *resume;      // folder that holds a checkpoint to continue from
    const char *checkpoint;  // both; there may be none yet
    uint64_t every;          // steps between savings; 0: only at the end
    const char *weights;     // digest of the file of initial parameters, or NULL: those of the seed
};

struct train_checkpoints {
    struct checkpoint *from;  // null: the run begins afresh
    bool repeatable;          // one unsharded run from step 1 makes all these steps
    bool saves;
    struct store store;
    uint64_t every;
    struct facts facts;
};

// ERR_USAGE: there is none to continue from, it is of another run, or the folder to save to holds other checkpoints,
// which would be in the way. The notes say, a line each, what the user should know. To be closed in either case, when
// the run is over.
int train_checkpoints_open(const struct train_checkpoint_options *options, const struct train_setting *setting,
                           struct train_checkpoints *out, char notes[NOTES_BYTES]);
void train_checkpoints_close(struct train_checkpoints *checkpoints);

// Collective: the stage, open, takes up the checkpoint, if there is one. With verification the unsharded run makes all
// its steps first, and must arrive at the same bits.
int train_resume(struct train_rank *rank);

// Collective: saves after a step, if it is time to. `last`: no step follows. What differs from unsharded Adam is not
// saved.
int train_save(struct train_rank *rank, uint64_t step, bool applied, double loss, bool last);

#endif

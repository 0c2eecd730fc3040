// SPDX-License-Identifier: Apache-2.0
// Checkpoints. A store is a folder; each checkpoint in it is a folder of its own:
//
//   DIR/step-00000012/rank-0.safetensors ...   what each rank owns: tensors STATE/NAME[BEGIN:END], elements BEGIN to
//                                              END of the flattened tensor, fp32
//   DIR/step-00000012/manifest.json            all the rest, and the digests (manifest.h)
//
// Saving: everything is written to DIR/step-00000012.partial and made durable, the manifest last; then the folder is
// renamed, the rename made durable, and only then checkpoints older than the last two are removed. So there is a
// complete checkpoint at every moment from the first one on. DIR/.lock keeps a second run out; with it held, whatever
// is called .partial or .replaced was left by a run that died, and is removed.
//
// The memory for all this, a shard of one state at a time, is in no tier's account; nor is what the ranks tell each
// other, nor what is read from NVMe and written back to it.
//
// Loading does not ask how the tensors were cut: every rank reads the elements that it owns now from whichever files
// hold them. World, stage, buckets, tiers, schedule may be others, and the states arrive bit by bit. The steps that
// follow have the bits of a run that never stopped as long as a gradient is the same sum, term by term: whatever the
// stage, at the same world and micro-batch, but for stages 0 and 1 against 2 and 3 when micro-steps are accumulated
// (oracle.h). Otherwise they have the bits of a run that changed there, and the notes say so.
#ifndef ZG_CHECKPOINT_H
#define ZG_CHECKPOINT_H

#include "ref/checkpoint/manifest.h"
#include "ref/stage/stage.h"
#include "ref/model/text.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// --- what decides about bits ---

enum fact_kind {
    FACT_MUST,    // a run with another value cannot continue
    FACT_MAY,     // it can, but from here on bits are those of the new value
    FACT_BEFORE,  // it only decided where the run began
};

enum { FACT_MAX = 40, FACT_BYTES = 256 };

struct facts {
    size_t count;
    struct fact {
        const char *key;  // static
        enum fact_kind kind;
        char value[FACT_BYTES];
    } rows[FACT_MAX];
};

// text and weights may be null: the model wants no text; the initial parameters are those of the seed. weights is the
// digest of the file that they come from.
struct facts_setting {
    const struct model *model;
    const struct config *config;
    const struct text *text;
    const char *weights;
    uint64_t seed;
    int world;
};

int facts_of(const struct facts_setting *setting, struct facts *out);

// ERR_USAGE: a fact that must be the same differs. Otherwise a line is added to the notes for each that may differ and
// does, and *repeatable says whether one run under these facts would have made all the steps so far.
enum { NOTES_BYTES = 4096 };
int facts_compare(const struct facts *facts, const struct manifest *manifest, const char *path, bool *repeatable,
                  char notes[NOTES_BYTES]);

// --- reading ---

struct checkpoint;

// path is a checkpoint's folder or a store's: of that, the newest complete checkpoint is taken, and the notes say which
// newer ones are not complete, and why. *out is NULL where a store holds no checkpoint at all, or is not there; what it
// holds being incomplete altogether is an error. Headers, sizes and coverage are checked; digests when it is loaded.
int checkpoint_open(const char *path, struct checkpoint **out, char notes[NOTES_BYTES]);
void checkpoint_close(struct checkpoint *checkpoint);

// Of one checkpoint's folder. ERR_USAGE: it is not complete, or not one.
int checkpoint_open_folder(const char *path, struct checkpoint **out);

// ERR_USAGE: it is not of this model: the name, a parameter's name, shape, or whether it is trained.
int checkpoint_check_model(const struct checkpoint *checkpoint, const struct model *model);

const char *checkpoint_path(const struct checkpoint *checkpoint);
const struct manifest *checkpoint_manifest(const struct checkpoint *checkpoint);

// The index of the parameter of this name in the manifest; false when there is none.
bool checkpoint_find(const struct checkpoint *checkpoint, const char *name, size_t *param);

// Reads all of one rank's file. ERR_USAGE: it is not the one that was written.
int checkpoint_check_digest(const struct checkpoint *checkpoint, size_t file);

// Elements [first, first + count) of a state (manifest.h) of the manifest's parameter. Any thread may read.
int checkpoint_read(const struct checkpoint *checkpoint, int state, size_t param, uint64_t first, size_t count,
                    float *out);

// Collective: digests, shared out over the ranks; then this rank's shards, its copies, the optimizer's counters, loss
// scale and recipe. ERR_USAGE when the stage's model is another one.
int checkpoint_load(const struct checkpoint *checkpoint, struct stage *stage);

// --- writing ---

struct store {
    char *path;
    int lock;         // -1: not open
    uint64_t newest;  // step of the newest complete checkpoint in it; 0: none
};

// Makes the folder if need be, takes the lock, and removes what dead runs left. ERR_USAGE when another run has it.
int store_open(const char *path, struct store *out);

// The store of a run whose rank 0 is another process: nothing is made, locked or removed by this one.
int store_follow(const char *path, struct store *out);

// Removes what a failed save has left. Null-safe.
void store_close(struct store *store);

// What there is to say about a step besides the stage's states.
struct save_moment {
    uint64_t step;
    bool last_applied;
    double loss;
    bool repeatable;
    const struct facts *facts;
};

// Collective: when it returns, the checkpoint is durable. Only rank 0 changes the store. ERR_IO names the file; the
// checkpoints from before are untouched.
int checkpoint_save(struct store *store, struct stage *stage, const struct save_moment *moment);

// --- shared by the parts ---

enum { STEP_NAME_BYTES = 40, RANK_NAME_BYTES = 48 };

// "rank-0.safetensors"
const char *checkpoint_rank_name(size_t rank, char out[RANK_NAME_BYTES]);

// "step-00000012"
const char *checkpoint_step_name(uint64_t step, char out[STEP_NAME_BYTES]);

// Endings of folders that are on their way in or out.
#define STORE_PARTIAL ".partial"
#define STORE_REPLACED ".replaced"

// Removes a folder of files from the store.
int store_remove(const char *store, const char *name);

// Steps of the checkpoint folders in a store, newest first; the caller frees *steps. ERR_IO if it cannot be read.
int checkpoint_list(const char *store, uint64_t **steps, size_t *count);

#endif

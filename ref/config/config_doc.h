// SPDX-License-Identifier: Apache-2.0
// A configuration as written: JSON text with the overrides of the command line applied. It knows the line of each
// value, which error messages give.
#pragma once

#include "base/json.h"
#include "base/safe_text.h"
#include "ref/config/config.h"
#include "ref/config/config_keys.h"

#include <jansson.h>
#include <stddef.h>

struct config_doc {
    struct json_text text;
    char *json;                            // the text as JSON; owned
    const struct config_options *options;  // not owned
    struct config_notes *notes;            // not owned; may be null
};

// Sets "path.to.key=value" in a configuration, with objects around it. ERR_USAGE if it has another form.
int config_doc_set(json_t *root, const char *override);

// Parses the text and applies the overrides; checks only that the text is JSON.
int config_doc_open(const char *name, const char *text, size_t bytes, const struct config_options *options,
                    struct config_notes *notes, struct config_doc *out);
void config_doc_close(struct config_doc *doc);

// Checks every key against the table: known, of its type, in range, given under one name only. Notes ignored keys and
// "auto".
int config_doc_check(struct config_doc *doc);

// Checks the document and fills in the configuration.
int config_resolve(struct config_doc *doc, struct config *out);

// The ranks of data parallelism: those of the world that train the same part of the model.
int config_data_ranks(const struct config_doc *doc);

// Parts of config_resolve, in this order: dtypes, which depend on the stage; the section "zerogauge"; the tiers, which
// depend on stage and precision; the disks, which depend on the tiers.
int config_resolve_precision(struct config_doc *doc, struct config *out);
int config_resolve_states(struct config_doc *doc, struct config *out);  // after precision and stage
int config_resolve_own(struct config_doc *doc, struct config *out);
int config_resolve_offload(struct config_doc *doc, struct config *out);
int config_resolve_nvme(struct config_doc *doc, struct config *out);

// Fills the effective values into the notes about "auto".
void config_notes_fill(struct config_notes *notes, const struct config *config);

// Appends a note unless the key has one. key: the table's string, compared by address.
void config_doc_note(struct config_doc *doc, enum config_note_kind kind, const char *key);

// Notes that a key of the table has no effect with the other keys, and removes the notes on it and on its members.
// Does nothing if the key is not given.
void config_doc_ignore(struct config_doc *doc, const char *path);

// Notes that a key of the table is an old name of another key, with this value.
void config_doc_note_old(struct config_doc *doc, const char *path, const char *name, const char *value);

// The value at a key's path or under another name of the key; null if there is none. Borrowed.
const json_t *config_doc_value(const struct config_doc *doc, const char *path);

// The same, but null also for JSON's null and for "auto".
const json_t *config_doc_given(const struct config_doc *doc, const char *path);

// The value as a C type, or fallback if none is given. config_doc_check has checked the types.
double config_doc_number(const struct config_doc *doc, const char *path, double fallback);
int64_t config_doc_whole(const struct config_doc *doc, const char *path, int64_t fallback);
size_t config_doc_size(const struct config_doc *doc, const char *path, int64_t fallback);
bool config_doc_flag(const struct config_doc *doc, const char *path, bool fallback);
const char *config_doc_string(const struct config_doc *doc, const char *path, const char *fallback);
enum dtype config_doc_dtype(const struct config_doc *doc, const char *path, enum dtype fallback);

bool config_doc_is_auto(const struct config_doc *doc, const char *path);

// Returns ERR_USAGE with the message `PLACE: path: ...`, where PLACE is FILE:LINE or the override that set the key.
int config_doc_fail(const struct config_doc *doc, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// The value at exactly this dotted path below object; null if there is none. Borrowed.
json_t *config_doc_descend(json_t *object, const char *path);

// Configurations as people write them: DeepSpeed reads its files as hjson.

// Returns the text as JSON, with a zero behind it: comments become spaces; keys and strings get their quotes, values
// the commas between them, and the whole text its braces, where hjson (https://hjson.github.io/syntax.html, and the
// Python package that DeepSpeed reads with) lets one omit them. Values stay on their lines. What hjson refuses stays as
// it is from there on, and is then refused as JSON. The caller frees the result; null: no memory.
char *config_json_of_hjson(const char *text, size_t bytes, size_t *out_bytes);

// Configurations of other programs, from YAML, TOML or JSON: Hugging Face Accelerate's, which its launcher reads, and
// those that trainers read, whose names for the same things are alike (config_foreign.c).

// True if the name of a file ends as that of a YAML or TOML file, or its text is JSON with keys of such a program.
bool config_is_foreign(const char *file, const char *text, size_t bytes);

// The program whose configuration an object is by its outermost keys; null if there is none.
const struct config_program *config_program_of_json(json_t *root);

// Returns a text in TOML as YAML, line by line, with a zero behind it: tables become sections, whose names may have
// dots. The caller frees the result; null: no memory. What is no TOML is then refused as YAML.
char *config_yaml_of_toml(const char *text, size_t bytes, size_t *out_bytes);

// Reads a text in YAML and returns DeepSpeed's keys of the same meaning; what the program leaves to others, such as
// Accelerate the micro-batch, is "auto". The member "own" is for the caller: "file" names a file of DeepSpeed that the
// text refers to, or is its object; "plan" has what plans alone have, by the names of their options; "warmup" is a
// trainer's number of steps or share of them; "places" has "LINE: KEY" of the text for each path. Keys without a
// meaning here are noted; notes may be null. ERR_USAGE: `NAME:LINE: key: what is wrong, what was expected`, also for a
// key that is not Accelerate's. The caller owns *out. Accelerate's keys: accelerate/utils/dataclasses.py,
// DeepSpeedPlugin and FullyShardedDataParallelPlugin, of 1.15.
int config_read_foreign(const char *name, const char *text, size_t bytes, const struct config_options *options,
                        struct config_notes *notes, json_t **out);

// SPDX-License-Identifier: Apache-2.0
// A configuration as it is written: JSON text with the overrides of the command line laid over it. It knows where each
// value stands, and so says what is wrong with it.
#ifndef ZG_CONFIG_DOC_H
#define ZG_CONFIG_DOC_H

#include "ref/config/config.h"
#include "base/safe_text.h"
#include "ref/config/config_keys.h"
#include "base/json.h"

struct config_doc {
    struct json_text text;
    const struct config_options *options;  // not owned
    struct config_notes *notes;            // not owned; may be null
};

// Parses and lays the overrides over it; nothing is checked yet but that it is JSON.
int config_doc_open(const char *name, const char *text, size_t bytes, const struct config_options *options,
                    struct config_notes *notes, struct config_doc *out);
void config_doc_close(struct config_doc *doc);

// Every key against the table: known, of its type, in range, given under one name only. Notes what is ignored or
// "auto".
int config_doc_check(struct config_doc *doc);

// Checks, and works out what the configuration means.
int config_resolve(struct config_doc *doc, struct config *out);

// Parts of it: the section "zerogauge"; tiers, which need the stage and the precision; the disks, which need the tiers.
int config_resolve_own(struct config_doc *doc, struct config *out);
int config_resolve_offload(struct config_doc *doc, struct config *out);
int config_resolve_nvme(struct config_doc *doc, struct config *out);

// Gives the notes about "auto" the values of the effective configuration.
void config_notes_fill(struct config_notes *notes, const struct config *config);

// Appends a note; a key is noted once.
void config_doc_note(struct config_doc *doc, enum config_note_kind kind, const char *key);

// Notes that a key of the table has no meaning beside the other keys, in place of the notes on it and on what is in it;
// nothing, if it is not written.
void config_doc_ignore(struct config_doc *doc, const char *path);

// Notes once that a key of the table is an old name of another key, with this value.
void config_doc_note_old(struct config_doc *doc, const char *path, const char *name, const char *value);

// The value at a key's path, or under another name of the key; null where there is none. Borrowed.
const json_t *config_doc_value(const struct config_doc *doc, const char *path);

// The same, but null for JSON's null and for "auto".
const json_t *config_doc_given(const struct config_doc *doc, const char *path);

// The value as C has it; fallback where none is given. The types have been checked.
double config_doc_number(const struct config_doc *doc, const char *path, double fallback);
int64_t config_doc_whole(const struct config_doc *doc, const char *path, int64_t fallback);
size_t config_doc_size(const struct config_doc *doc, const char *path, int64_t fallback);
bool config_doc_flag(const struct config_doc *doc, const char *path, bool fallback);
const char *config_doc_string(const struct config_doc *doc, const char *path, const char *fallback);

bool config_doc_is_auto(const struct config_doc *doc, const char *path);

// Returns ERR_USAGE with the message `PLACE: path: ...`; the place is the line of the key, or the override that set it.
int config_doc_fail(const struct config_doc *doc, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// The value at a dotted path below object, without a look at other names; null where there is none. Borrowed.
json_t *config_doc_descend(json_t *object, const char *path);

#endif

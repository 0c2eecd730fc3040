// SPDX-License-Identifier: Apache-2.0
// Reading case.json: the parts that case_read.c and case_read_params.c share.
#pragma once

#include "base/strict_json.h"
#include "conformance/cases/case.h"

// True if text has only letters, digits, '.', '_', '-' and the characters in more, and does not begin with '.'.
bool case_is_name(const char *text, const char *more);

// Reads a string that case_is_name accepts.
int case_read_name(const struct strict_object *object, const char *key, const char *more, char out[CASE_NAME_BYTES]);

// Reads "groups", given steps and expects_refusal; and "params", given the groups.
int case_read_groups(const struct strict_object *root, struct check_case *c);
int case_read_params(const struct strict_object *root, struct check_case *c);

// True if a key is there and not null.
bool case_has_key(const struct strict_object *object, const char *key);

// Reads "mesh", given world; a parameter's "placement", given the mesh and its shape; and checks all placements
// together.
int case_read_mesh(const struct strict_object *root, struct check_case *c);
int case_read_placement(const struct strict_object *param, const struct check_case *c, struct case_param *out);
int case_check_placements(const struct strict_object *root, const struct check_case *c);

// Reads "tokens", given steps, accumulation and the mesh.
int case_read_tokens(const struct strict_object *root, struct check_case *c);

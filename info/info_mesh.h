// SPDX-License-Identifier: Apache-2.0
// The ranks and groups of a mesh: `zerogauge info --mesh`.
#ifndef ZG_INFO_MESH_H
#define ZG_INFO_MESH_H

#include <jansson.h>

// Every rank's coordinates and the groups of each kind, for the text of a mesh (mesh.h); a new object. ERR_USAGE: it is
// no mesh, or its ranks are not `world`. world: 0 allows any number.
int info_mesh_collect(const char *text, int world, json_t **out);

// Prints that object as a table.
void info_mesh_print(const json_t *mesh);

#endif

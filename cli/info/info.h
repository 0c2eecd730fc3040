// SPDX-License-Identifier: Apache-2.0
// What this machine has, and which parts were built in: `zerogauge info`.
#pragma once

#include <jansson.h>

// A new object with the keys record, build, machine, isa, backends and programs; null when the system does
// not tell.
json_t *info_collect(void);

// The subcommand; --json prints the object in one line. argv[0] is its own name; returns the exit status.
int info_main(int argc, const char **argv);

// Optional programs that some commands use.

// Returns a new array of objects: name, path and version (null if the program is absent or reports no version), package
// (the Debian package) and enables (its purpose here). Runs each program that it finds with --version, except those
// that start slowly.
json_t *info_programs(void);

// The ranks and groups of a mesh: `zerogauge info --mesh`.

// Every rank's coordinates and the groups of each kind, for the text of a mesh (mesh.h); a new object. ERR_USAGE: it is
// no mesh, or has not `world` ranks; 0: of any number.
int info_mesh_collect(const char *text, int world, json_t **out);

// Prints that object as a table.
void info_mesh_print(const json_t *mesh);

// The facts of cuda_info.h; JSON's null in a build without CUDA.
json_t *info_cuda(void);

// machine_facts (base/machine.h), with the GPUs that CUDA can use, if there are any, instead of those that the driver
// lists.
json_t *info_machine(const char *const *folders);

// Appends a row for cuda and, in a build with CUDA, cublas. cuda: the result of info_cuda.
void info_cuda_backends(const json_t *cuda, json_t *list);

// Prints a GPU of machine_facts: "NVIDIA H100, driver 580.95, 700 of 700 W, 1980 MHz at most, ECC on, PCIe 5 x16", as
// far as it is known, and what slows it.
void info_gpu_print(const json_t *facts);

// Prints a line for each device.
void info_cuda_print(const json_t *cuda);

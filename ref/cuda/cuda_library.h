// SPDX-License-Identifier: Apache-2.0
// NVIDIA's libraries are loaded at first use, so that the program also runs where they are not installed.
#pragma once

#include <stddef.h>

// Loads the first library of the names, a list that ends with null, preferred names first. Looks in the folders of the
// environment variable ZG_CUDA_LIBRARY_PATH, separated by colons; in the loader's own path, which begins with
// LD_LIBRARY_PATH; in the folder of CUDA's libraries at build time; and in what pip installed:
// PREFIX/lib/python3*/site-packages/nvidia/*/lib, where PREFIX is VIRTUAL_ENV, that of a python3 in PATH, or
// /usr/local. A name with a slash is the path of a file. needed: a library that the loaded one needs and whose file may
// lie next to it, unknown to the loader; or null. The library stays loaded. ERR_USAGE: there is none; the message lists
// where it was looked for.
int cuda_library_open(const char *const names[], const char *needed, void **handle);

// Returns the loaded library's file, valid as long as it is loaded.
const char *cuda_library_file(void *handle);

struct cuda_library_function {
    const char *name;
    void *pointer;  // to a pointer to the function, which is set
};

// Sets the pointers. Returns null, or the first name that the library lacks.
const char *cuda_library_find(void *handle, const struct cuda_library_function functions[], size_t count);

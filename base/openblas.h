// SPDX-License-Identifier: Apache-2.0
// OpenBLAS, loaded when it is first needed: most commands multiply no matrices, and a machine may lack it. openblas.c
// defines the functions of <cblas.h> that the program calls, and each loads the library.
#pragma once

// Loads OpenBLAS. ERR_USAGE if it cannot be loaded; then the functions that describe the library return "absent" or -1.
// ERR_MEMORY if a limit leaves no room for it and its first buffer. After either cblas_sgemm must not be called.
int openblas_load(void);

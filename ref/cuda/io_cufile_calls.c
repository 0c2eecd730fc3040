// SPDX-License-Identifier: Apache-2.0
// The functions of cuFile. The library is loaded on first use, so that the program also runs where it is not installed.
#include "ref/cuda/io_cufile.h"

#include "ref/cuda/cuda_library.h"
#include "base/err.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static struct {
    pthread_once_t once;
    struct cufile_calls calls;
    char absent[2048];  // the reason why cuFile is not available; "" if it is
} library = {.once = PTHREAD_ONCE_INIT};

static void load(void)
{
    struct cufile_calls *calls = &library.calls;
    const struct cuda_library_function functions[] = {
        {"cuFileDriverOpen", &calls->driver_open},
        {"cuFileDriverClose_v2", &calls->driver_close},
        {"cuFileDriverGetProperties", &calls->properties},
        {"cuFileHandleRegister", &calls->file_register},
        {"cuFileHandleDeregister", &calls->file_deregister},
        {"cuFileBufRegister", &calls->buffer_register},
        {"cuFileBufDeregister", &calls->buffer_deregister},
        {"cuFileRead", &calls->read},
        {"cuFileWrite", &calls->write},
    };
    void *handle;
    if (cuda_library_open((const char *const[]){"libcufile.so.0", "libcufile.so", NULL}, NULL, &handle) != ERR_NONE) {
        snprintf(library.absent, sizeof library.absent, "no cuFile: %s", err_message());
        return;
    }
    calls->library = cuda_library_file(handle);
    // cuFileDriverOpen reads this list in a loop and never returns without it.
    if (access("/proc/modules", R_OK) != 0) {
        snprintf(library.absent, sizeof library.absent, "no cuFile: it hangs where the kernel has no /proc/modules");
        return;
    }
    const char *lacking = cuda_library_find(handle, functions, sizeof functions / sizeof functions[0]);
    if (lacking)
        snprintf(library.absent, sizeof library.absent, "cuFile is older than CUDA 12's: it lacks %s", lacking);
}

int io_cufile_library(const struct cufile_calls **out)
{
    pthread_once(&library.once, load);
    *out = &library.calls;
    return library.absent[0] == '\0' ? ERR_NONE : err_set(ERR_USAGE, "%s", library.absent);
}

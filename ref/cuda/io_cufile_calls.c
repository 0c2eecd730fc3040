// SPDX-License-Identifier: Apache-2.0
// The functions of cuFile. The library is loaded on first use, so that the program also runs where it is not installed.
#include "ref/cuda/io_cufile.h"

#include "base/err.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_once_t once;
    struct cufile_calls calls;
    char absent[512];  // the reason why cuFile is not available; "" if it is
} library = {.once = PTHREAD_ONCE_INIT};

// Tries the system's search path, then the path of CUDA's libraries at build time.
static void *open_library(void)
{
    static const char *const names[] = {"libcufile.so.0", "libcufile.so", ZG_CUDA_LIBRARIES "/libcufile.so.0",
                                        ZG_CUDA_LIBRARIES "/libcufile.so"};
    void *handle = NULL;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !handle; i++) {
        handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        library.calls.library = names[i];
        const char *why = handle ? NULL : dlerror();
        if (why && library.absent[0] == '\0')
            snprintf(library.absent, sizeof library.absent, "no cuFile: %s", why);
    }
    return handle;
}

static void load(void)
{
    struct cufile_calls *calls = &library.calls;
    const struct {
        const char *name;
        void *function;  // a pointer to the function's pointer
    } symbols[] = {
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
    void *handle = open_library();
    if (!handle)
        return;
    // cuFileDriverOpen reads this list in a loop and never returns without it.
    if (access("/proc/modules", R_OK) != 0) {
        snprintf(library.absent, sizeof library.absent, "no cuFile: it hangs where the kernel has no /proc/modules");
        return;
    }
    for (size_t i = 0; i < sizeof symbols / sizeof symbols[0]; i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address) {
            snprintf(library.absent, sizeof library.absent, "cuFile is older than CUDA 12's: it lacks %s",
                     symbols[i].name);
            return;
        }
        memcpy(symbols[i].function, &address, sizeof address);
    }
    library.absent[0] = '\0';
}

int io_cufile_library(const struct cufile_calls **out)
{
    pthread_once(&library.once, load);
    *out = &library.calls;
    return library.absent[0] == '\0' ? ERR_NONE : err_set(ERR_USAGE, "%s", library.absent);
}

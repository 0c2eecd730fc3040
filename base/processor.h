// SPDX-License-Identifier: Apache-2.0
// What carries out this program's instructions.
#pragma once

#include <hwloc.h>
#include <stdbool.h>

enum { PROCESSOR_NAME_BYTES = 128 };

// The model that the system reports, or "unknown". Linux names no model on aarch64: there it is the name of the design
// by the registers' codes of implementer and part, or these codes.
const char *processor_name(hwloc_topology_t topology, char out[PROCESSOR_NAME_BYTES]);

// True if another architecture's program translates this one, as qemu-user does; its file name goes to `out`.
// Times are then those of that program.
bool processor_is_emulated(char out[PROCESSOR_NAME_BYTES]);

// The same for the program that the link `running` leads to; processor_is_emulated asks for the kernel's own,
// /proc/thread-self/exe, which emulators do not redirect as they do /proc/self/exe.
bool processor_is_emulated_by(const char *running, char out[PROCESSOR_NAME_BYTES]);

// Asks for slices of 0.1 ms for the calling thread, the least that Linux grants, in place of milliseconds: it runs
// sooner when it wakes up, and others sooner while it computes, without more or less of the processor's time. Does
// nothing before Linux 6.12, or where the thread has a policy of its own.
void processor_short_slices(void);

// A pause between two looks at what another thread is about to write: each look takes the line from that thread.
static inline void processor_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

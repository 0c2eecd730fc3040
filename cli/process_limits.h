// SPDX-License-Identifier: Apache-2.0
// What the program needs of the process in which it starts.
#ifndef ZG_PROCESS_LIMITS_H
#define ZG_PROCESS_LIMITS_H

// Keeps closed standard descriptors from being opened as files, makes output beyond a limit on the size of files an
// error instead of a signal, raises low soft limits of open files and stack as far as they may be raised, and gives
// every later thread a stack that suffices. Returns an error code: ERR_USAGE if a hard limit is too low for any run.
int process_limits_prepare(void);

#endif

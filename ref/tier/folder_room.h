// SPDX-License-Identifier: Apache-2.0
// Checks, before long work, that a folder which the user gives can take the files of that work. These checks do not
// look for faults of the device, which writing and reading find.
#pragma once

#include <stdint.h>

// Opens a file without a name, with additional flags of open. Where the file system cannot create one, it creates a
// named file and unlinks it. Returns -1 and sets errno on failure.
int folder_open_unnamed(const char *folder, int flags);

// ERR_USAGE: no file can be created there. option, such as "--nvme-path", begins the message.
int folder_check_writable(const char *option, const char *folder);

// ERR_USAGE: files of this many bytes do not fit there, because of the file system, a quota or a limit of the process.
// Where no file can be created it finds nothing.
int folder_check_room(const char *option, const char *folder, uint64_t bytes);

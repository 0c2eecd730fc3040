// SPDX-License-Identifier: Apache-2.0
// Files as a checkpoint needs them: reads and writes that are complete or errors, durable writes, digests. Every error
// names the path.
#ifndef ZG_FILE_H
#define ZG_FILE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { FILE_DIGEST_BYTES = 33 };  // 32 hexadecimal digits of XXH3-128, and the end

// FOLDER/NAME. ERR_USAGE when that is too long for a path. out is neither of the two.
int file_join(const char *folder, const char *name, char out[PATH_MAX]);

// Writes all of it at the file's position. ERR_IO: no space, a limit, a device's error.
int file_write(int fd, const char *path, const void *data, size_t bytes);

// Reads exactly this many bytes at offset. ERR_IO when the file ends before.
int file_read_at(int fd, const char *path, uint64_t offset, void *out, size_t bytes);

// The whole of a small file, and a zero byte behind it; the caller frees *text. ERR_USAGE when it has more than limit.
int file_read_text(const char *path, size_t limit, char **text, size_t *bytes);

// A new file to print into. ERR_USAGE where the path is taken or the file cannot be made.
int file_create(const char *path, FILE **out);

// ERR_IO where something could not be written to out; what: "the page".
int file_flush(FILE *out, const char *what);

// Closes a file that was printed into; rc is the code of the printing. ERR_IO where something could not be written. The
// file is removed after any error.
int file_finish(FILE *out, const char *path, int rc);

int file_bytes(int fd, const char *path, uint64_t *bytes);

// What was written to the file, or to a folder's table, survives a loss of power from here on.
int file_sync(int fd, const char *path);
int file_sync_folder(const char *path);

// The folder that holds path: "." where it names none. out has room for strlen(path) + 2 bytes.
const char *file_folder(const char *path, char *out);

// XXH3-128 of the whole file.
int file_digest(int fd, const char *path, char digest[FILE_DIGEST_BYTES]);

#endif

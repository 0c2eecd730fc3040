// SPDX-License-Identifier: Apache-2.0
// Files: opened safely, reads and writes that complete or fail, output that appears whole, digests. Every error names
// the path.
#pragma once

#include "base/digest.h"

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { FILE_DIGEST_BYTES = DIGEST_TEXT_BYTES };  // 32 hexadecimal digits of XXH3-128 and a zero byte

// Writes FOLDER/NAME to out, which must not overlap either. ERR_USAGE if it is too long for a path.
int file_join(const char *folder, const char *name, char out[PATH_MAX]);

// Opens a file that the user names for reading, through links. A pipe or a device is refused, never waited for.
// ERR_USAGE: it is missing, forbidden, or not a regular file. ERR_IO: the system cannot open it now, for instance
// because too many files are open.
int file_open(const char *path, int *fd);

// Opens a file in a folder that another program may have filled: also refuses a link. `path` is its name in messages.
int file_open_at(int folder_fd, const char *name, const char *path, int *fd);

// Opens a folder in another, or of any path with AT_FDCWD. ERR_USAGE: it is missing, forbidden, a link, or no folder.
int file_open_folder(int folder_fd, const char *name, const char *path, int *fd);

// Writes all bytes at the file's position. ERR_IO: no space, a limit, a device error.
int file_write(int fd, const char *path, const void *data, size_t bytes);

// Reads exactly `bytes` bytes at offset. ERR_IO if the file ends before.
int file_read_at(int fd, const char *path, uint64_t offset, void *out, size_t bytes);

// Reads a whole small file and appends a zero byte; the caller frees *text. ERR_USAGE if it has more than `limit`
// bytes.
int file_read_text(const char *path, size_t limit, char **text, size_t *bytes);

// The same for a file in a folder that another program may have filled (file_open_at).
int file_read_text_at(int folder_fd, const char *name, const char *path, size_t limit, char **text, size_t *bytes);

// Creates a file that must not exist, nor a link of its name. ERR_IO: it exists, or cannot be created.
int file_create(const char *path, int *fd);

// The same, as a stream. `path` is its name in messages.
int file_create_stream(const char *name, const char *path, FILE **out);

// Makes a folder, or takes one that exists. ERR_USAGE: it is a link or a file, or cannot be created there.
int file_make_folder(const char *path);

// Flushes out. ERR_IO if any output to it failed; `what` names it in the message: "the page".
int file_flush(FILE *out, const char *what);

// A new file, or one that may replace a regular file: for what a user keeps up to date, such as a state.
enum file_output_kind { FILE_NEW, FILE_REPLACED };

// For a path that is written to after a long run. ERR_USAGE: its folder cannot be written to, or an output to it would
// replace what it must not: any but a regular file, or with FILE_NEW that too.
int file_check_output(const char *path, enum file_output_kind kind);

// Output that becomes `path` only when it is complete. Until then its name is longer, by less than FILE_PARTIAL_BYTES.
enum { FILE_PARTIAL_BYTES = 40 };
struct file_output {
    FILE *out;
    const char *path;  // borrowed
    char *partial;     // its name until then, in the folder of `path`
    enum file_output_kind kind;
};

// Creates the output. ERR_USAGE, as of file_check_output. ERR_IO: the system cannot create it.
int file_output_open(const char *path, enum file_output_kind kind, struct file_output *out);

// Completes the output and puts it into its place; rc is the code of the printing, returned if it is an error. ERR_IO
// if any output failed. After an error an earlier file of that name is unchanged.
int file_output_close(struct file_output *out, int rc);

// The size of a regular file. ERR_USAGE for any other file.
int file_bytes(int fd, const char *path, uint64_t *bytes);

// Makes the data of a file, or the names in a folder, durable against a loss of power.
int file_sync(int fd, const char *path);
int file_sync_folder(const char *path);

// The folder part of path, "." if it has none. out holds strlen(path) + 2 bytes. Returns out.
const char *file_folder(const char *path, char *out);

// XXH3-128 of the whole file.
int file_digest(int fd, const char *path, char digest[FILE_DIGEST_BYTES]);

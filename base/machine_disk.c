// SPDX-License-Identifier: Apache-2.0
#include "base/machine.h"

#include "base/safe_text.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { LINE_BYTES = 256, MOUNT_BYTES = 8192 };

json_t *machine_line(const char *path)
{
    char line[LINE_BYTES];
    FILE *file = fopen(path, "r");
    char *text = file ? fgets(line, sizeof line, file) : NULL;
    if (file)
        fclose(file);
    if (!text)
        return json_null();
    size_t length = strcspn(text, "\n");
    while (length > 0 && text[length - 1] == ' ')
        length--;
    text[length] = '\0';
    return text_json(text);
}

struct mount {
    char type[LINE_BYTES], source[LINE_BYTES];
};

// Finds the mount of a device in lines such as
// "36 35 98:0 / /mnt rw,noatime shared:1 - ext4 /dev/sda1 rw". False: it has no visible mount.
static bool find_mount(dev_t device, struct mount *out)
{
    char line[MOUNT_BYTES];
    bool found = false;
    FILE *file = fopen("/proc/self/mountinfo", "r");
    while (file && !found && fgets(line, sizeof line, file)) {
        unsigned number[2];
        const char *tail = strstr(line, " - ");
        found = tail && sscanf(line, "%*d %*d %u:%u", &number[0], &number[1]) == 2 &&
                makedev(number[0], number[1]) == device && sscanf(tail, " - %255s %255s", out->type, out->source) == 2;
    }
    if (file)
        fclose(file);
    return found;
}

// The folder in /sys of the disk that is or contains this device.
static bool disk_folder(dev_t device, char out[PATH_MAX])
{
    char link[64], real[PATH_MAX], partition[PATH_MAX + 16];
    snprintf(link, sizeof link, "/sys/dev/block/%u:%u", major(device), minor(device));
    if (!realpath(link, real))
        return false;
    snprintf(partition, sizeof partition, "%s/partition", real);
    if (access(partition, F_OK) == 0)
        *strrchr(real, '/') = '\0';
    strcpy(out, real);
    return true;
}

static json_t *disk_line(const char *folder, const char *name)
{
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return machine_line(path);
}

json_t *machine_disk(const char *folder)
{
    struct stat status, source;
    struct statvfs room;
    struct mount mount = {0};
    char disk[PATH_MAX];
    if (stat(folder, &status) != 0 || statvfs(folder, &room) != 0)
        return NULL;
    bool mounted = find_mount(status.st_dev, &mount);
    dev_t device = status.st_dev;
    // Some file systems have their own device number, and name their disk only as the source of the mount.
    if (mounted && major(device) == 0 && stat(mount.source, &source) == 0 && S_ISBLK(source.st_mode))
        device = source.st_rdev;
    bool on_disk = disk_folder(device, disk);
    json_t *rotates = on_disk ? disk_line(disk, "queue/rotational") : json_null();
    const char *text = json_string_value(rotates);
    json_t *rotational = text ? json_boolean(strcmp(text, "1") == 0) : json_null();
    json_decref(rotates);
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "folder", text_json(folder), "file_system",
                     mounted ? text_json(mount.type) : json_null(), "device",
                     on_disk ? text_json(strrchr(disk, '/') + 1) : json_null(), "model",
                     on_disk ? disk_line(disk, "device/model") : json_null(), "rotational", rotational, "bytes",
                     (json_int_t)(room.f_blocks * room.f_frsize), "available_bytes",
                     (json_int_t)(room.f_bavail * room.f_frsize));
}

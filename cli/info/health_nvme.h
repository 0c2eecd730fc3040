// SPDX-License-Identifier: Apache-2.0
// What NVMe drives say of their own health: the log page SMART / Health Information (NVM Express Base Specification,
// figure "SMART / Health Information Log Page").
#ifndef ZG_HEALTH_NVME_H
#define ZG_HEALTH_NVME_H

enum { HEALTH_NVME_LOG_BYTES = 512 };

struct health_nvme {
    double warnings;       // of all drives: critical warnings that are set now, such as worn out, too hot, read only
    double media_errors;   // of all drives: transfers whose data could not be recovered
    double worn_percent;   // of the most worn drive, of the writes that it is built for; may exceed 100
    double spare_percent;  // of the drive with the least spare blocks left
    double temperature_c;  // of the hottest drive
};

// Adds one drive's log page.
void health_nvme_add(const unsigned char log[HEALTH_NVME_LOG_BYTES], struct health_nvme *out);

// Asks every drive; what no drive says is NAN. Asking needs the rights of root; without them the kernel tells the
// temperature alone. root: prefix of /dev and /sys.
void health_nvme_read(const char *root, struct health_nvme *out);

#endif

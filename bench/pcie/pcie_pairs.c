// SPDX-License-Identifier: Apache-2.0
// Copies between devices. A pair that writes slower one way than the other, or slower than another pair of the same
// machine, has a link of fewer lanes, a lower rate, or the host between the two.
#include "bench/pcie/pcie.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>

// Copies of device `from` to and from the memory of device `to`.
static struct pcie_setting pair_of(const struct pcie_trial *of, int from, int to, enum pcie_memory memory,
                                   enum pcie_direction direction)
{
    struct pcie_setting s = of->setting;
    s.first_device = from;
    s.distance = (to - from + s.link->device_count) % s.link->device_count;
    s.memory = memory;
    s.direction = direction;
    return s;
}

// One copy of few bytes, each way of both devices, and by kernels.
static int run_latency(const struct pcie_trial *of, int a, int b, bool by_kernels)
{
    struct pcie_setting one = pair_of(of, a, b, PCIE_PEER, PCIE_D2H), other = pair_of(of, b, a, PCIE_PEER, PCIE_D2H);
    one.block_bytes = other.block_bytes = PCIE_COPY_BYTES;
    struct pcie_setting kernels = one;
    kernels.memory = PCIE_PEER_MAPPED;
    TRY(pcie_latency_against(of->options, &one, "the other device's", &other));
    TRY(pcie_latency_against(of->options, &other, "the other device's", &one));
    return by_kernels ? pcie_latency_against(of->options, &kernels, "the copy engines", &one) : ERR_NONE;
}

static int run_pair(const struct pcie_trial *of, int a, int b, double rates[])
{
    int count = of->setting.link->device_count;
    bool directly, back;
    TRY(of->setting.link->enter(b));
    TRY(of->setting.link->reach(a, &back));
    TRY(of->setting.link->enter(a));
    TRY(of->setting.link->reach(b, &directly));
    if (!(directly && back) && !of->options->json)
        printf("SKIP     kernels cannot copy between devices %d and %d: the host is between them\n", a, b);
    struct pcie_setting write = pair_of(of, a, b, PCIE_PEER, PCIE_D2H), other = pair_of(of, b, a, PCIE_PEER, PCIE_D2H);
    struct pcie_setting read = pair_of(of, a, b, PCIE_PEER, PCIE_H2D), both = pair_of(of, a, b, PCIE_PEER, PCIE_BOTH);
    struct pcie_trial of_link = *of;
    of_link.of_link = true;
    TRY(pcie_trial_against(&of_link, &write, "the other way", &other, 1, &rates[a * count + b]));
    TRY(pcie_trial_against(&of_link, &other, "the other way", &write, 1, &rates[b * count + a]));
    if (of->options->quick && b > 1)
        return ERR_NONE;
    TRY(pcie_trial_against(&of_link, &read, "writes", &write, 1, NULL));
    TRY(pcie_trial_against(&of_link, &both, "writes", &write, 1, NULL));
    for (int direction = 0; directly && back && direction < PCIE_DIRECTION_COUNT; direction++) {
        enum pcie_direction way = (enum pcie_direction)direction;
        struct pcie_setting kernels = pair_of(of, a, b, PCIE_PEER_MAPPED, way);
        struct pcie_setting engines = pair_of(of, a, b, PCIE_PEER, way);
        TRY(pcie_trial_against(of, &kernels, "the copy engines", &engines, 1, NULL));
    }
    return run_latency(of, a, b, directly && back);
}

// {"0": {"1": GB/s that device 0 writes to device 1's memory}}. New.
static json_t *matrix_json(const double rates[], int count)
{
    json_t *matrix = json_object();
    char name[16];
    for (int from = 0; from < count; from++) {
        json_t *row = json_object();
        for (int to = 0; to < count; to++) {
            snprintf(name, sizeof name, "%d", to);
            if (to != from)
                json_object_set_new(row, name, json_real(rates[from * count + to]));
        }
        snprintf(name, sizeof name, "%d", from);
        json_object_set_new(matrix, name, row);
    }
    return matrix;
}

// Every device writes to its neighbour, around all of them, and reads from it at the same time.
static int run_ring(const struct pcie_trial *of, json_t *matrix)
{
    struct pcie_trial with_matrix = *of;
    with_matrix.matrix = matrix;
    int count = of->setting.link->device_count;
    struct pcie_setting alone[count], ring;
    for (int device = 0; device < count; device++)
        alone[device] = pair_of(of, device, (device + 1) % count, PCIE_PEER, PCIE_BOTH);
    ring = alone[0];
    ring.device_count = count;
    return pcie_trial_against(&with_matrix, &ring, "each pair alone", alone, count, NULL);
}

static void print_matrix(const double rates[], int count)
{
    printf("\nWrites of a device (row) to another's memory (column), GB/s\n     ");
    for (int to = 0; to < count; to++)
        printf("%8d", to);
    for (int from = 0; from < count; from++) {
        printf("\n%5d", from);
        for (int to = 0; to < count; to++)
            from == to ? printf("%8s", "-") : printf("%8.2f", rates[from * count + to]);
    }
    printf("\n\n");
}

int pcie_pairs_run(const struct pcie_trial *of)
{
    int count = of->setting.link->device_count, code = ERR_NONE;
    double *rates = calloc((size_t)count * (size_t)count, sizeof *rates);
    if (!rates)
        return err_set(ERR_MEMORY, "no memory for the rates of %d devices", count);
    for (int a = 0; code == ERR_NONE && a < count; a++)
        for (int b = a + 1; code == ERR_NONE && b < count; b++)
            code = run_pair(of, a, b, rates);
    json_t *matrix = code == ERR_NONE ? matrix_json(rates, count) : NULL;
    if (code == ERR_NONE)
        code = run_ring(of, matrix);
    json_decref(matrix);
    if (code == ERR_NONE && !of->options->json)
        print_matrix(rates, count);
    free(rates);
    return code;
}

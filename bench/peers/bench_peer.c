// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench peer`: a part of training in turn with another implementation of it. bench/peers has programs for
// PyTorch, DeepSpeed and MPI; ci/peers bench runs all of them.
#include "bench/peers/bench_peer.h"

#include "base/err.h"

#include <popt.h>
#include <string.h>

static int peer_main(int argc, const char **argv);

const struct benchmark bench_peer = {
    .name = "peer",
    .run = peer_main,
    .uses = BENCH_USES_STORAGE,
    .summary = "a part of training against PyTorch's, DeepSpeed's or MPI's",
    .text =
        "A part of training in turn with another implementation of it, the peer: a program that is started once and "
        "does the same work. The results of both are compared in the same run.",
    .examples = {"zerogauge bench peer --part adam --recipe torch-fused-cpu --beside 'python3 bench/peers/adam.py "
                 "--adam fused'",
                 "zerogauge bench peer --part comm --operation all-reduce --beside 'python3 bench/peers/comm.py'"},
};

static const struct part {
    const char *name;
    int (*run)(const struct peer_options *options, struct peer *peer);
} parts[] = {{"adam", peer_adam},
             {"checkpoint", peer_checkpoint},
             {"comm", peer_comm},
             {"nvme", peer_nvme},
             {"step", peer_step}};

static int run(const struct peer_options *options)
{
    const struct part *part = NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts && options->part; i++)
        if (strcmp(options->part, parts[i].name) == 0)
            part = &parts[i];
    if (!options->beside)
        return bench_skip("peer: no peer given; name one with --beside COMMAND, or run ci/peers bench");
    if (!part)
        return err_set(ERR_USAGE, "--part %s: expected adam, checkpoint, comm, nvme or step",
                       options->part ? options->part : "");
    struct peer peer;
    TRY(peer_open(options->beside, &peer));
    int code = part->run(options, &peer);
    peer_close(&peer);
    return code;
}

static int peer_main(int argc, const char **argv)
{
    enum { TEXT = POPT_ARG_STRING, INT = POPT_ARG_INT };
    struct peer_options given = {0};
    const struct poptOption own[] = {
        {"beside", '\0', TEXT, &given.beside, 0,
         "the peer: a program that speaks the protocol of bench/peers/peer.h; bench/peers in the source tree has "
         "programs for PyTorch, DeepSpeed and MPI",
         "COMMAND"},
        {"part", '\0', TEXT, &given.part, 0, "the work to compare", "adam|checkpoint|comm|nvme|step"},
        {"label", '\0', TEXT, &given.label, 0, "name of the peer in the record (default: the name it reports)", "NAME"},
        {"recipe", '\0', TEXT, &given.recipe, 0, "adam: the peer's arithmetic (default: torch-cpu)", "RECIPE"},
        {"step", '\0', TEXT, &given.step, 0, "adam: the step (default: update); whole: norm, Adam and bf16 copy",
         "update|whole"},
        {"operation", '\0', TEXT, &given.operation, 0,
         "comm: all-gather, all-reduce, reduce-scatter, all-to-all or broadcast; checkpoint: save or load", "NAME"},
        {"direction", '\0', TEXT, &given.direction, 0, "nvme: direction (default: read)", "read|write"},
        {"size", '\0', TEXT, &given.size, 0, "nvme: size of each file (default: 1G); --sizes are bytes of a request",
         "SIZE"},
        {"depth", '\0', INT, &given.depth, 0, "nvme: requests in flight (default: 32)", "N"},
        {"seconds", '\0', POPT_ARG_DOUBLE, &given.seconds, 0, "nvme: length of each run in seconds (default: 1)", "S"},
        {"model", '\0', TEXT, &given.model, 0,
         "step: a GPT (default: gpt-3m); checkpoint: whose states (default: a GPT of 63 million parameters)", "MODEL"},
        {"preset", '\0', TEXT, &given.preset, 0, "step: preset (default: zero0)", "PRESET"},
        {"dtype", '\0', TEXT, &given.dtype, 0,
         "step: the model's parameters and gradients (default: fp32); in bf16 products are the processor's own",
         "fp32|bf16"},
        {"set", '\0', POPT_ARG_ARGV, &given.set, 0, "step: override a key of the preset; repeatable", "KEY=VALUE"},
        {"schedule", '\0', TEXT, &given.schedule, 0, "step: schedule of operations (default: serial)",
         "serial|overlap"},
        {"steps", '\0', INT, &given.steps, 0, "step: steps per turn (default: 5)", "N"},
        {"tolerance", '\0', POPT_ARG_DOUBLE, &given.tolerance, 0,
         "step: accepted relative difference of a loss (default: 1e-4 in fp32, 2^-6 in bf16)", "X"},
        {"world", '\0', INT, &given.world, 0, "checkpoint, comm, step: ranks (default: 2)", "N"},
        POPT_TABLEEND,
    };
    int code = bench_parse(argc, argv, &bench_peer, own, &given.shared);
    given.world = given.world > 0 ? given.world : 2;
    if (code == ERR_NONE && !given.shared.help)
        code = run(&given);
    bench_release(&given.shared, own);
    return bench_exit("peer", code);
}

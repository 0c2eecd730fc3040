// SPDX-License-Identifier: Apache-2.0
// `zerogauge report`: result files verified, shown, compared and ranked.
#ifndef ZG_REPORT_COMMAND_H
#define ZG_REPORT_COMMAND_H

// The subcommand: argv[0] is its own name; returns the exit status. 1: a file does not hold.
int report_main(int argc, const char **argv);

#endif

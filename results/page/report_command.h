// SPDX-License-Identifier: Apache-2.0
// `zerogauge report`: verifies, shows, compares and ranks result files.
#ifndef ZG_REPORT_COMMAND_H
#define ZG_REPORT_COMMAND_H

// The subcommand: argv[0] is its own name. Returns the exit status; 1: a file does not verify.
int report_main(int argc, const char **argv);

#endif

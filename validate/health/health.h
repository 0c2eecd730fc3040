// SPDX-License-Identifier: Apache-2.0
// The subcommands about a machine's health, which return the exit status.
#pragma once

int preflight_main(int argc, const char **argv);
int soak_main(int argc, const char **argv);

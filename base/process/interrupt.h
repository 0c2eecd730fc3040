// SPDX-License-Identifier: Apache-2.0
// Requests to end: from the keyboard, from a batch system, from a terminal that goes away.
#pragma once

// The exit status of a command that was asked to end, as a shell's after SIGINT.
enum { INTERRUPTED_STATUS = 130 };

// Installs the handler of SIGINT, SIGTERM and SIGHUP. A SIGHUP that is ignored, as under nohup, stays ignored.
void interrupt_watch(void (*handler)(int signal_number));

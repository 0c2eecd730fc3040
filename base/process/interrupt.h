// SPDX-License-Identifier: Apache-2.0
// Requests to end: from the keyboard, from a batch system, from a terminal that goes away.
#pragma once

// Installs the handler of SIGINT, SIGTERM and SIGHUP. A SIGHUP that is ignored, as under nohup, stays ignored.
void interrupt_watch(void (*handler)(int signal_number));

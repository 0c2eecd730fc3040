// SPDX-License-Identifier: Apache-2.0
#include "base/process/interrupt.h"

#include <signal.h>
#include <stddef.h>

void interrupt_watch(void (*handler)(int signal_number))
{
    struct sigaction before, action = {.sa_handler = handler};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (sigaction(SIGHUP, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGHUP, &action, NULL);
}

// SPDX-License-Identifier: Apache-2.0
#ifndef ZG_CMD_PLAN_H
#define ZG_CMD_PLAN_H

// `zerogauge plan`
int plan_main(int argc, const char **argv);

#endif

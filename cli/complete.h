// SPDX-License-Identifier: Apache-2.0
// Shell completion: packaging/zerogauge.bash and packaging/_zerogauge print the candidates that the program names.
#ifndef ZG_COMPLETE_H
#define ZG_COMPLETE_H

// `words` follow the program's name. Prints the candidates for the last one, one a line; none where a file is expected.
// Returns the exit status.
int complete_print(const char *const *words, int count);

#endif

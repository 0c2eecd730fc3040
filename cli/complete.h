// SPDX-License-Identifier: Apache-2.0
// Shell completion: packaging/zerogauge.bash and packaging/_zerogauge offer the candidates that the program prints.
#ifndef ZG_COMPLETE_H
#define ZG_COMPLETE_H

// words: the command line after the program's name. Prints the candidates for the last word, one per line; none if a
// file is expected. Returns the exit status.
int complete_print(const char *const *words, int count);

#endif

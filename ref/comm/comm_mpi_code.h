// SPDX-License-Identifier: Apache-2.0
#ifndef ZG_COMM_MPI_CODE_H
#define ZG_COMM_MPI_CODE_H

// Converts the result of an MPI call to an error of this program; `call` names the call in the message.
int comm_mpi_code(int mpi_result, const char *call);

#endif

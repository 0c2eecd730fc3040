// SPDX-License-Identifier: Apache-2.0
#include "ref/comm/comm_mpi_code.h"

#include "base/err.h"

#include <mpi.h>

int comm_mpi_code(int mpi_result, const char *call)
{
    if (mpi_result == MPI_SUCCESS)
        return ERR_NONE;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(mpi_result, text, &length);
    return err_set(ERR_IO, "MPI: %s: %s", call, text);
}

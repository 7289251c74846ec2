/* SPDX-License-Identifier: MIT
 *
 * MPI as the transport of sia_comm. The program brings it; the library is free of MPI.
 *
 *     sia_comm *c;                                       stays NULL for a process that was started by itself
 *     if (sia_mpi_start(&c, 600, err)) ...
 *     ...
 *     sia_mpi_end(c, true, code);                        or false: the job ends, whatever the other ranks do
 *
 * MPI_Init is called only under a launcher (mpirun, srun): one process does not pay for it. Calls of MPI-3.1 alone. */
#ifndef SIA_COMM_COMM_MPI_H
#define SIA_COMM_COMM_MPI_H

#include "comm/comm.h"

/* How many processes the launcher says it started, by its environment; 1 without one. */
int sia_launched(void);

/* SIA_ARGUMENT when a launcher started several processes that MPI does not see as one job, or when this build has
 * no MPI. */
sia_status sia_mpi_start(sia_comm **c, double timeout, sia_error *err);

/* Destroys c. clean: all ranks come here. Else the job is aborted, with this exit code; does not return. Neither
 * waits for long: a process whose MPI hangs is ended. NULL is fine. */
void sia_mpi_end(sia_comm *c, bool clean, int code);

const char *
sia_mpi_library(void); /* "Open MPI v4.1.4, ...", or "none" for a build without; no MPI_Init needed */

#endif

# SPDX-License-Identifier: Apache-2.0
"""Runs the processes of a launch's ranks."""
import multiprocessing.connection


def run_all(processes):
    """Runs processes until all have ended or one has failed, which ends the others. Returns an exit status."""
    for process in processes:
        process.start()
    running = list(processes)
    while running and not any(process.exitcode for process in processes):
        multiprocessing.connection.wait([process.sentinel for process in running])
        running = [process for process in running if process.exitcode is None]
    for process in running:
        process.kill()
    for process in processes:
        process.join()
    return 1 if any(process.exitcode for process in processes) else 0

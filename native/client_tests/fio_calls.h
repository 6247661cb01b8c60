/* A job of fio with the published engine for GD2FS. */
#ifndef HEARTH_FIO_CALLS_H
#define HEARTH_FIO_CALLS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads the first `size` bytes of the file into `buffer`, or writes them. 0 or a negative errno. */
int hearth_fio_job(const char *cpaddr, const char *dpaddr, const char *cluster, const char *path,
                   int write, void *buffer, size_t size);

#ifdef __cplusplus
}
#endif

#endif

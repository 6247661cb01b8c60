/* A program that writes a file and reads it back elsewhere, as its C compiler takes it. */
#ifndef HEARTH_PUT_CALLS_H_
#define HEARTH_PUT_CALLS_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes `path` with the bytes, by writes of `part` bytes of which the last one is asked for first,
 * at the agent `writer`, and compares them with what the agent `reader` gives. 0, or the number of
 * the step that failed.
 */
int put_and_get(const char *writer, const char *reader, const char *path,
                const unsigned char *bytes, size_t size, size_t part);

#ifdef __cplusplus
}
#endif

#endif

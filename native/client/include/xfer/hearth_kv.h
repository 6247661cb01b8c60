/*
 * Values under keys in a volume of a Hearth cluster, such as the blocks of a KV cache; a part of
 * libgd2fs beside xfer/gd2fs.h. Clean in C89 and C++. Since 1.4. docs/clients.md says more.
 *
 * A key space belongs to a volume, a fingerprint of whatever a value depends on beside its key
 * (weights, layout, precision) and a salt. The same key in another space is another key. A value is
 * whole or absent to every call of every node, and never changes: the first put of a key stays
 * until the key is deleted or the volume evicts it, and later ones succeed without sending a byte.
 *
 * A call takes a batch of items. It returns 0, or a negative errno, and then no completion comes.
 * Each accepted batch yields exactly one completion, by its timeout at the latest. Keys and SGEs
 * are copied; the array of items stays valid until the completion has been taken, when each item
 * has its status. Memory of values is as that of xfer_gd2fs_preadv() and xfer_gd2fs_pwritev():
 * registered with the context, and not touched any more when the completion has come, unless the
 * completion is marked HEARTH_KV_NOT_AT_REST. All calls are for any thread, also at once; none but
 * hearth_kv_close(), hearth_kv_drain() and hearth_kv_wait() blocks.
 *
 * Each struct begins with its size, by which the library tells programs of earlier releases apart.
 * Statuses and results are errno values.
 */
#ifndef XFER_HEARTH_KV_H
#define XFER_HEARTH_KV_H

#include <stddef.h>
#include <stdint.h>

#include "gd2fs.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hearth_kv hearth_kv;

#define HEARTH_KV_MAX_ITEMS 4096u     /* in a batch */
#define HEARTH_KV_MAX_KEY_BYTES 4096u /* of a key; the fingerprint and the salt may be as long */

/* Texts and bytes are copied. */
typedef struct hearth_kv_space {
  size_t size;             /* sizeof(hearth_kv_space) */
  const char *volume;      /* its name */
  const void *fingerprint; /* at least one byte */
  size_t fingerprint_bytes;
  const void *salt; /* keeps those apart that share a fingerprint; NULL and 0: none */
  size_t salt_bytes;
} hearth_kv_space;

typedef struct hearth_kv_item {
  size_t size; /* sizeof(hearth_kv_item), the same for all items of a batch */
  const void *key;
  size_t key_bytes;           /* 1 to HEARTH_KV_MAX_KEY_BYTES */
  const xfer_gd2fs_sge *sges; /* put: the value, one after the other; get: where it goes */
  size_t sge_count;           /* 0 in the other calls */
  /* Written before the completion can be taken: */
  uint64_t value_bytes; /* of a value that was put or found; with EMSGSIZE what get has to hold */
  int status;           /* 0 or an errno; ENOENT: the key has no value */
} hearth_kv_item;

typedef struct hearth_kv_batch {
  size_t size; /* sizeof(hearth_kv_batch) */
  void *id;    /* comes back in the completion; names the batch for hearth_kv_cancel() */
  hearth_kv_item *items;
  size_t count;        /* 1 to HEARTH_KV_MAX_ITEMS */
  unsigned timeout_ms; /* 0: the context's */
  unsigned flags;      /* 0 */
} hearth_kv_batch;

typedef struct hearth_kv_completion {
  size_t size; /* sizeof(hearth_kv_completion), set by the caller in the first one of an array */
  void *id;
  uint64_t value; /* items whose status is 0; of hearth_kv_prefix() those before the first other */
  int status;     /* 0, or the first status of an item that is neither 0 nor ENOENT */
  unsigned flags; /* HEARTH_KV_NOT_AT_REST or 0 */
} hearth_kv_completion;

/* Memory of the batch may still be touched: hearth_kv_drain() waits for its end. */
#define HEARTH_KV_NOT_AT_REST 1u

/*
 * Opens a key space; nothing is asked of an agent. NULL, and errno: EBADF no such context, EINVAL,
 * EMFILE, ENOMEM. hearth_kv_close() frees the result.
 */
hearth_kv *hearth_kv_open(xfer_gd2fs_ctx *ctx, const hearth_kv_space *space);

/*
 * Cancels all batches, and returns when no memory of theirs is touched any more, but not before
 * other threads have left hearth_kv_wait(). Completions that were not taken are gone. No other call
 * may be under way or follow. NULL: nothing.
 */
void hearth_kv_close(hearth_kv *kv);

/*
 * Stores values of at least one byte, in host memory. Item statuses: 0 the key has a value now,
 * also when it had one before; ENOSPC, EACCES, ETIMEDOUT, ECANCELED, EFAULT and others as
 * xfer_gd2fs_pwritev(): after those the key has a whole value or none. 0, or -EINVAL, -EFAULT
 * memory that is not registered, -EOPNOTSUPP memory of a GPU, -EAGAIN too many batches are in
 * flight or wait to be taken, -EBADF the context is closed.
 */
int hearth_kv_put(hearth_kv *kv, const hearth_kv_batch *batch);

/*
 * Reads values into host or GPU memory that may be longer than they are. Item statuses: ENOENT;
 * EMSGSIZE the memory is too short, and nothing was read; others as xfer_gd2fs_preadv(), after
 * which the memory may hold anything. 0, or a negative errno as hearth_kv_put(); -EINVAL also for
 * SGEs of an item that overlap.
 */
int hearth_kv_get(hearth_kv *kv, const hearth_kv_batch *batch);

/* Asks which keys have a value. Item statuses: 0 or ENOENT. As hearth_kv_get() otherwise. */
int hearth_kv_exists(hearth_kv *kv, const hearth_kv_batch *batch);

/*
 * Asks how many leading keys of the batch have a value: the completion's `value`. All items behind
 * the first that has none get ENOENT, and most of them are not looked for.
 */
int hearth_kv_prefix(hearth_kv *kv, const hearth_kv_batch *batch);

/*
 * Removes values. Item statuses: 0 this call has removed it; ENOENT there was none, which is no
 * error of the batch.
 */
int hearth_kv_delete(hearth_kv *kv, const hearth_kv_batch *batch);

/*
 * Ends all batches with that id that are in flight: items that have not ended get ECANCELED, and
 * each completion is there when this returns. A put that is cancelled may have stored its value all
 * the same. The number of batches.
 */
int hearth_kv_cancel(hearth_kv *kv, const void *id);

/*
 * Waits until no memory of any batch is touched any more, for `timeout_ms`, for ever with -1.
 * Completions stay to be taken. 0 or -ETIMEDOUT.
 */
int hearth_kv_drain(hearth_kv *kv, int timeout_ms);

/* A descriptor that is readable while completions wait to be taken. The space owns it. */
int hearth_kv_event_fd(const hearth_kv *kv);

/*
 * Takes up to `max` completions; hearth_kv_wait() waits for the first one for `timeout_ms`, for
 * ever with -1. Their number, 0 when none came in time, or -EINVAL.
 */
int hearth_kv_poll(hearth_kv *kv, hearth_kv_completion *completions, int max);
int hearth_kv_wait(hearth_kv *kv, hearth_kv_completion *completions, int max, int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif

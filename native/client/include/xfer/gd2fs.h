/*
 * libgd2fs: files of a Hearth cluster, read into the caller's own memory, and written from there,
 * by asynchronous vectored calls. Clean in C89 and C++. docs/clients.md says more.
 *
 * Paths are /dataset/NAME/path/in/the/dataset or /volume/NAME/path/in/the/volume, UTF-8, at most
 * 4096 bytes. Other paths, such as /weights.bin, lie below HEARTH_ROOT, such as /dataset/NAME, or
 * below what the file `root` beside the token names.
 *
 * A call that submits returns 0, or a negative errno, and then no completion comes. Each accepted
 * request yields exactly one completion through xfer_gd2fs_wait(), in any order; memory of the
 * caller is not touched any more when it has come, unless it is marked XFER_GD2FS_NOT_QUIESCENT:
 * then xfer_gd2fs_drain() waits for that. All calls are for any thread, also at once. A
 * child of fork(2) cannot use contexts of its parent: -EBADF.
 *
 * A client proves itself by a token (hearth token), which is read again for each connection: the
 * file that HEARTH_TOKEN_FILE names, else the text in HEARTH_TOKEN, else the file `token` of the
 * folder that HEARTH_CLIENT_ACCESS names, /var/run/hearth by default.
 */
#ifndef XFER_GD2FS_H
#define XFER_GD2FS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct xfer_gd2fs_ctx xfer_gd2fs_ctx;
typedef struct xfer_gd2fs_iomem xfer_gd2fs_iomem;

/* NULL and 0: the default. Texts are copied. */
typedef struct xfer_gd2fs_options {
  const char
      *cp_address; /* of agents: "gd2fs://10.0.0.1:7527,gd2fs://[fd00::1]"; any may be down. NULL
                      or "": HEARTH_CPADDR, else the file `addresses` beside the token */
  const char *dp_address; /* of this client's NICs: "tcp://10.0.0.9,rdma://10.0.1.9,...", which
                             connections use in turn; NULL, and loopback: the kernel chooses */
  const char
      *cluster_id; /* the cluster's name; NULL or "": HEARTH_CLUSTER, else the file `cluster` */
  unsigned iothread_count;    /* threads that move bytes; 0: as many as processors, at most 4 */
  unsigned memthread_count;   /* ignored: threads that move bytes also check them */
  unsigned conn_stream_count; /* connections of each thread to an agent; 0: 1 */
  const char *log_level;      /* "info", "warn" or "error", to stderr; NULL: nothing */
  unsigned timeout;           /* of a request, in milliseconds; 0: 60000 */
} xfer_gd2fs_options;

/* A part of registered memory. */
typedef struct xfer_gd2fs_sge {
  void *addr;
  size_t len; /* bytes */
  xfer_gd2fs_iomem *iomem;
} xfer_gd2fs_sge;

typedef struct xfer_gd2fs_stat {
  uint64_t size;        /* bytes of a file; entries of a folder */
  int64_t mtime_ns;     /* since the epoch */
  uint32_t mode;        /* S_IFREG, S_IFDIR or S_IFLNK, and permissions; as stat(2) has it */
  uint32_t reserved[3]; /* zeros */
} xfer_gd2fs_stat;

typedef struct xfer_gd2fs_completion {
  void *id;            /* of the request, as it was given */
  uint64_t value;      /* bytes that were read: fewer than asked for at the file's end; entries that
                          were listed; 0 on failure */
  uint16_t status;     /* 0, or XFER_GD2FS_STATUS_CODE and XFER_GD2FS_STATUS_CLASS of the failure */
  uint8_t reserved[6]; /* the first one: XFER_GD2FS_NOT_QUIESCENT, since 1.2; zeros */
} xfer_gd2fs_completion;

/*
 * Whether the request may go on to write into its memory: of a failed read into memory of a GPU
 * whose driver has not returned from a copy in time. A program that finds this set does not use the
 * memory otherwise before xfer_gd2fs_drain() has returned 0.
 */
#define XFER_GD2FS_NOT_QUIESCENT 1u
#define XFER_GD2FS_IS_QUIESCENT(completion) \
  (((completion).reserved[0] & XFER_GD2FS_NOT_QUIESCENT) == 0)

/* 0, or the errno that says why the request failed. */
#define XFER_GD2FS_STATUS_CODE(status) ((unsigned)(status)&0xffu)
/* Where the failure lies. */
#define XFER_GD2FS_STATUS_CLASS(status) (((unsigned)(status) >> 8) & 0xffu)
#define XFER_GD2FS_CLASS_NONE 0u
#define XFER_GD2FS_CLASS_REQUEST 1u /* in what was asked: another try gives the same */
#define XFER_GD2FS_CLASS_ACCESS 2u  /* in the token */
#define XFER_GD2FS_CLASS_CLUSTER 3u /* in the cluster or the network: a later try may succeed */
#define XFER_GD2FS_CLASS_DATA 4u    /* in the bytes, or where they come from */
/* What an agent says of the path, as EEXIST of one that exists. */
#define XFER_GD2FS_STATUS_CLASS_SERVER XFER_GD2FS_CLASS_REQUEST

/*
 * Waits for the first agent that answers, at most 10 s (`timeout` when that is less). NULL, and
 * errno: EINVAL options; EACCES no token, or one that the cluster refuses, or another cluster;
 * EHOSTUNREACH no agent answers; EMFILE, ENOMEM. xfer_gd2fs_close() frees the result.
 */
xfer_gd2fs_ctx *xfer_gd2fs_connect(const xfer_gd2fs_options *options);

/*
 * Ends what is in flight with ECANCELED. Returns when no memory of the caller is touched any more.
 * Every completion that was not taken stays: xfer_gd2fs_wait() gives it, in this thread or another,
 * and -EBADF when all have been taken. All other calls get -EBADF from now on. NULL and closed
 * ones: nothing.
 */
void xfer_gd2fs_close(xfer_gd2fs_ctx *ctx);

/*
 * Makes [addr, addr + len) of this process usable in SGEs of `ctx`; cheap, and may be repeated and
 * overlap. Host memory, which stays mapped until it is deregistered; requests for memory that does
 * not end with EFAULT. `reserved` is NULL. NULL, and errno: EBADF, EINVAL.
 */
xfer_gd2fs_iomem *xfer_gd2fs_reg_iomem(xfer_gd2fs_ctx *ctx, void *addr, size_t len, void *reserved);

/* 0; -EBUSY while requests use it, -EINVAL when it is not registered, -EBADF. */
int xfer_gd2fs_dereg_iomem(xfer_gd2fs_ctx *ctx, xfer_gd2fs_iomem *iomem);

/*
 * Waits until nothing touches the memory of `iomem` any more: neither requests in flight nor those
 * whose completion is not quiescent; for `timeout_ms`, for ever with -1. Completions stay to be
 * taken. 0, or -ETIMEDOUT; -EINVAL when it is not registered, -EBADF. Since 1.2.
 */
int xfer_gd2fs_drain(xfer_gd2fs_ctx *ctx, xfer_gd2fs_iomem *iomem, int timeout_ms);

/*
 * What is at the path goes into *st, which stays valid until the completion. 0, or -EINVAL,
 * -ENAMETOOLONG, -EBADF, -EAGAIN (65,536 requests are in flight).
 */
int xfer_gd2fs_fstat(xfer_gd2fs_ctx *ctx, void *id, const char *path, xfer_gd2fs_stat *st);

/*
 * Reads from byte `off` of the file into the SGEs, one after the other; at the end of the file as
 * pread(2) does. The SGEs are copied. `flags` is 0. 0, or a negative errno: as
 * xfer_gd2fs_fstat(); -EFAULT an SGE outside the memory that its iomem stands for, or an iomem that
 * is not registered; -EOVERFLOW no file is as long; -EINVAL no SGE, SGEs that overlap, or flags.
 */
ssize_t xfer_gd2fs_preadv(xfer_gd2fs_ctx *ctx, void *id, const char *path, uint64_t off,
                          const xfer_gd2fs_sge *sges, uint16_t nsge, uint16_t flags);

/*
 * Makes an empty file of a volume, and the folders above it, and succeeds for one that exists;
 * `flags` is 0, and `size` is passed over. Datasets are read-only: a path that exists completes
 * with EEXIST of XFER_GD2FS_STATUS_CLASS_SERVER, any other with EROFS. 0, or a negative errno: as
 * xfer_gd2fs_fstat().
 */
int xfer_gd2fs_create(xfer_gd2fs_ctx *ctx, void *id, const char *path, int flags, uint64_t size);

/*
 * Writes all of the SGEs, host memory, one after the other from byte `off` of a file of a volume
 * on, which is made where it does not exist. When the last write of a file that was under way has
 * completed, every node reads the bytes of all; of those that overlap any may have come last. A
 * write that fails changes nothing, unless its publish failed. The SGEs are copied, and their
 * memory does not change until the completion. `flags` is 0. 0, or a negative errno: as
 * xfer_gd2fs_preadv(), without -EINVAL for SGEs that overlap; -EROFS the path of a dataset,
 * -EOPNOTSUPP memory of a GPU.
 */
ssize_t xfer_gd2fs_pwritev(xfer_gd2fs_ctx *ctx, void *id, const char *path, uint64_t off,
                           const xfer_gd2fs_sge *sges, uint16_t nsge, uint16_t flags);

/*
 * Removes the file of a volume. Programs that have it open read on. Completes with ENOENT where
 * there is none. 0, or a negative errno: as xfer_gd2fs_fstat(); -EROFS the path of a dataset.
 * Since 1.3.
 */
int xfer_gd2fs_unlink(xfer_gd2fs_ctx *ctx, void *id, const char *path);

/* An entry of a folder. */
typedef struct xfer_gd2fs_dirent {
  uint64_t size;     /* bytes of a file; entries of a folder */
  uint32_t mode;     /* S_IFREG, S_IFDIR or S_IFLNK */
  uint32_t reserved; /* 0 */
  char name[256];    /* with its terminating NUL */
} xfer_gd2fs_dirent;

/*
 * Fills `entries` with at most `max` entries of the folder at `path`, in the order of their names'
 * bytes, from the first one behind the name `after` on; NULL or "": from the first. The
 * completion's value is their number: less than `max` at the end. `entries` stay valid until the
 * completion, `after` is copied. 0, or a negative errno: as xfer_gd2fs_fstat(); -EINVAL no entries;
 * -ENAMETOOLONG a name of more than 255 bytes. Since 1.1.
 */
int xfer_gd2fs_list(xfer_gd2fs_ctx *ctx, void *id, const char *path, const char *after,
                    xfer_gd2fs_dirent *entries, uint32_t max);

#define XFER_GD2FS_WILLNEED 0 /* fetch it ahead */
#define XFER_GD2FS_DONTNEED 1 /* let go of it, where it is not in use, pinned or published */
#define XFER_GD2FS_NODE 0     /* the node whose agent answers: this one, where it has an agent */
#define XFER_GD2FS_CLUSTER 1  /* WILLNEED: what no node has; DONTNEED: every node */

/*
 * Says what will happen to a file, or to all files at and below a folder or dataset. Completes when
 * the agent has begun: the work goes on in the background, behind reads. 0, or a negative errno: as
 * xfer_gd2fs_fstat(); -EINVAL, also for an unknown `advice` or `scope`. Since 1.1.
 */
int xfer_gd2fs_advise(xfer_gd2fs_ctx *ctx, void *id, const char *path, int advice, int scope);

/*
 * Takes up to `max` completions; waits for the first one for `timeout_ms`, for ever with -1. Their
 * number, 0 when none came in time, or -EINVAL, -EBADF: unknown, or closed and all completions were
 * taken. Each completion goes to one caller.
 */
int xfer_gd2fs_wait(xfer_gd2fs_ctx *ctx, xfer_gd2fs_completion *completions, int max,
                    int timeout_ms);

#ifdef __cplusplus
}
#endif

#endif

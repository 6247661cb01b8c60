/* ioctls on files and folders of a Hearth mount: the distributed counterparts of
 * posix_fadvise(POSIX_FADV_WILLNEED and _DONTNEED), which a FUSE server never sees: the kernel
 * turns the first into reads, and keeps the second to its own page cache. C and C++; for other
 * languages the requests are numbers: 0xBE01 to 0xBE04.
 *
 *   int fd = open("/mnt/models/llama", O_RDONLY);
 *   ioctl(fd, HEARTH_IOC_WILLNEED);
 *
 * On a folder they hold for everything below it. They return 0 at once; the work goes on in the
 * background, behind all reads of applications, and ends when the folder is unmounted or the agent
 * ends. What is asked for already is not done twice. All need read access only. Errors:
 *   EAGAIN  too much is under way for this process (16 requests or 100,000 files), or sixteen times
 *           that for this mount; ask again later. Processes of other pid namespaces than that in
 *           which the folder was mounted count together when they have the same user id
 *   E2BIG   more than 100,000 files at once; ask for folders in it, or use `hearth advise`
 *   ENOTTY  not a file or folder of a Hearth mount, or its agent is of a release before this
 * request
 *
 * A mount that became a view (hard links, `hearth mounts`) has no server to ask: ENOTTY. Its files
 * are on this node whole, and stay while they are mounted.
 */
#ifndef HEARTH_IOCTL_H
#define HEARTH_IOCTL_H

#include <linux/ioctl.h>

/* Fetch the bytes to this node. */
#define HEARTH_IOC_WILLNEED _IO(0xBE, 1)

/* This node lets go of the bytes, in memory and in its cache. Nothing happens to files that are
 * pinned, published or open, but the descriptor that says it does not count: a file that is not
 * open elsewhere is evicted, and fetched again when it is read. Where the kernel reads it by
 * passthrough, that is when it is closed. What the origin is known to have no longer stays.
 * Copies of other nodes are others': for these there is `hearth advise dontneed --scope cluster`.
 */
#define HEARTH_IOC_DONTNEED _IO(0xBE, 2)

/* Fetch to this node what no node of the cluster has: from there every node reads it faster than
 * from the origin.
 */
#define HEARTH_IOC_WILLNEED_CLUSTER _IO(0xBE, 3)

/* This node lets go of the bytes in memory that no reader is on his way to. What is in its cache
 * stays, and is read from there.
 */
#define HEARTH_IOC_DONTNEED_MEMORY _IO(0xBE, 4)

#endif

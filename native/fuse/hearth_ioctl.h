/* ioctls on files and folders of a Hearth mount: the distributed counterparts of
 * posix_fadvise(POSIX_FADV_WILLNEED and _DONTNEED), which a FUSE server never sees.
 *
 *   int fd = open("/mnt/models/llama", O_RDONLY);
 *   ioctl(fd, HEARTH_IOC_WILLNEED);
 *
 * On a folder they hold for everything below it. They return 0 at once; the work goes on in the
 * background, and ends when the folder is unmounted or the agent ends. What is asked for already is
 * not done twice. Both need read access only. C and C++. Errors:
 *   EAGAIN  too much is under way for this process (16 requests or 100,000 files), or sixteen times
 *           that for this mount; ask again later. Processes of other pid namespaces than that in
 *           which the folder was mounted count together when they have the same user id
 *   E2BIG   more than 100,000 files at once; ask for folders in it, or use `hearth warm`
 *   ENOTTY  not a file or folder of a Hearth mount
 */
#ifndef HEARTH_IOCTL_H
#define HEARTH_IOCTL_H

#include <linux/ioctl.h>

/* Fetch the bytes to this node. */
#define HEARTH_IOC_WILLNEED _IO(0xBE, 1)
/* The bytes may be evicted. Nothing happens to files that are pinned, published or open, but the
 * descriptor that says it does not count: a file that is not open elsewhere is evicted, and
 * fetched again when it is read. Where the kernel reads it by passthrough, that is when it is
 * closed.
 */
#define HEARTH_IOC_DONTNEED _IO(0xBE, 2)

#endif

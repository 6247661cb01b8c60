/* ioctls on files and folders of a Hearth mount: the distributed counterparts of
 * posix_fadvise(POSIX_FADV_WILLNEED and _DONTNEED), which a FUSE server never sees.
 *
 *   int fd = open("/mnt/models/llama", O_RDONLY);
 *   ioctl(fd, HEARTH_IOC_WILLNEED);
 *
 * On a folder they hold for everything below it. They return 0 at once; the work goes on in the
 * background. Both need read access only. C and C++.
 */
#ifndef HEARTH_IOCTL_H
#define HEARTH_IOCTL_H

#include <linux/ioctl.h>

/* Fetch the bytes to this node. */
#define HEARTH_IOC_WILLNEED _IO(0xBE, 1)
/* The bytes may be evicted; nothing happens to files that are open, pinned or published. */
#define HEARTH_IOC_DONTNEED _IO(0xBE, 2)

#endif

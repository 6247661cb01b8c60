/* Says what will be needed of a mount, and what will not:
 *
 *   cc -o advise advise.c        (hearth_ioctl.h beside it, or in /usr/local/include)
 *   ./advise willneed /mnt/models/llama
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "hearth_ioctl.h"

static const struct {
  const char *name;
  unsigned long request;
} kAdvice[] = {{"willneed", HEARTH_IOC_WILLNEED},
               {"willneed-cluster", HEARTH_IOC_WILLNEED_CLUSTER},
               {"dontneed", HEARTH_IOC_DONTNEED},
               {"dontneed-memory", HEARTH_IOC_DONTNEED_MEMORY}};

int main(int count, char **words) {
  for (size_t i = 0; count == 3 && i < sizeof kAdvice / sizeof *kAdvice; ++i) {
    if (strcmp(words[1], kAdvice[i].name) != 0) continue;
    int fd = open(words[2], O_RDONLY | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, kAdvice[i].request) != 0) {
      fprintf(stderr, "%s: %s\n", words[2], strerror(errno));
      return 1;
    }
    close(fd);
    return 0;
  }
  fputs("usage: advise willneed|willneed-cluster|dontneed|dontneed-memory FILE-OR-FOLDER\n", stderr);
  return 2;
}

// Reads of mounted files by mmap, as a test may make them that serves the mount itself.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <string>

namespace hearth::fuse_testing {

// Compares all of a file, through a mapping, with what it should hold: 0, an errno (EIO when a page
// could not be read), or -1 for other bytes. Any thread.
//
// In a process of its own, for a fault that waits for the server can hold the lock of its process's
// memory map: when the page was evicted between the first try, which lets go of the lock, and the
// second, which does not (filemap_fault in mm/filemap.c). A server in the same process that then
// wants memory from the kernel waits for the fault, and the fault for the server.
[[nodiscard]] inline int compareMapped(const std::string& path, std::span<const char> expected) {
  const pid_t reader = fork();
  if (reader == 0) {
    // Only system calls here: other threads' locks were forked as they were.
    signal(SIGBUS, SIG_DFL);
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) _exit(errno);
    void* const mapped = mmap(nullptr, expected.size(), PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) _exit(errno);
    _exit(std::memcmp(mapped, expected.data(), expected.size()) == 0 ? 0 : 255);
  }
  int status = 0;
  if (reader < 0 || waitpid(reader, &status, 0) != reader) return errno;
  if (WIFSIGNALED(status)) return EIO;
  return WEXITSTATUS(status) == 255 ? -1 : WEXITSTATUS(status);
}

}  // namespace hearth::fuse_testing

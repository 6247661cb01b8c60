// A file that is open twice: through the page cache and, where the file system can, past it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/owned_fd.h"
#include "base/result.h"
#include "gpu/device.h"

namespace hearth {

enum class FileUse : std::uint8_t { kRead, kWrite };

// Any thread.
class OpenedFile {
 public:
  [[nodiscard]] static Result<std::shared_ptr<OpenedFile>> open(const std::string& path,
                                                                FileUse use);

  [[nodiscard]] const std::string& path() const { return path_; }
  // Now.
  [[nodiscard]] Result<std::uint64_t> size() const;
  // The path still leads to this file.
  [[nodiscard]] bool isCurrent() const;

  // Fills `into` from `offset` on. Bytes that are all in the page cache come from there. Others go
  // past the page cache, when the file system can, `throughPageCache` is false, and both the memory
  // and the offset are multiples of 4096; otherwise through it. At most `into.size()` bytes, at
  // least `least`; kIoError when the file ends before.
  [[nodiscard]] Status read(std::span<std::byte> into, std::uint64_t offset, std::size_t least,
                            bool throughPageCache) const;
  // Past the page cache on the same conditions, and when the size is such a multiple, too.
  [[nodiscard]] Status write(std::span<const std::byte> from, std::uint64_t offset,
                             bool throughPageCache) const;

  // The device's way to this file; asked once, answered for good. Later calls must name the same
  // DirectFiles.
  [[nodiscard]] Result<std::shared_ptr<DirectFile>> directFile(DirectFiles& device);

 private:
  OpenedFile(std::string path, OwnedFd cached, OwnedFd direct, std::uint64_t device,
             std::uint64_t inode)
      : path_(std::move(path)),
        cached_(std::move(cached)),
        direct_(std::move(direct)),
        device_(device),
        inode_(inode) {}

  const std::string path_;
  const OwnedFd cached_;
  const OwnedFd direct_;  // O_DIRECT; none where the file system does not know it
  const std::uint64_t device_, inode_;
  std::mutex mutex_;  // guards directFile_
  // Gone before the descriptor that it belongs to.
  std::optional<Result<std::shared_ptr<DirectFile>>> directFile_;
};

}  // namespace hearth

// One safetensors file, open for reading, with its checked header.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"
#include "loader/safetensors_header.h"
#include "memory/aligned_mapping.h"

namespace hearth {

// Reads go past the page cache at multiples of this, in file and memory.
inline constexpr std::uint64_t kDirectReadAlignment = 4096;

// Of struct stat: where the file is, its size, and when it was written.
using FileIdentity = std::array<std::uint64_t, 5>;

// How somebody else has read the header of a file.
struct ModelLayout {
  std::uint64_t dataOffset = 0;
  std::uint64_t fileBytes = 0;
  std::vector<TensorEntry> tensors;  // in any order
};

// Any thread.
class ModelFile {
 public:
  // Reads the header. kNotFound, kPermissionDenied...: as open(2) says; kCorrupt and kUnsupported:
  // as parseSafetensorsHeader(). Each message begins with the path.
  [[nodiscard]] static Result<std::shared_ptr<const ModelFile>> open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
  // Where the tensors' bytes begin in the file.
  [[nodiscard]] std::uint64_t dataOffset() const { return dataOffset_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  // Equal for two openings of the same file that nobody has written in between.
  [[nodiscard]] FileIdentity identity() const;

  // Reads exactly `size` bytes; waits for the disk. Where offset and memory are aligned and the
  // page cache lacks the bytes, they go past it, in whole pages: memory up to the next multiple of
  // kDirectReadAlignment must be the caller's. kOriginChanged: the file has become shorter.
  [[nodiscard]] Status read(std::byte* into, std::uint64_t offset, std::uint64_t size) const;

  // The same through the page cache, and into no byte behind `size`.
  [[nodiscard]] Status readThrough(std::byte* into, std::uint64_t offset, std::uint64_t size) const;

  // The bytes are in the page cache.
  [[nodiscard]] bool isCached(std::uint64_t offset, std::uint64_t size) const;
  // The same, and maps them; `mapping` is of the whole file.
  [[nodiscard]] bool populateCached(const AlignedMapping& mapping, std::uint64_t offset,
                                    std::uint64_t size) const;
  // Of the file through the page cache; it lives as long as this object.
  [[nodiscard]] int descriptor() const { return file_.get(); }

  // kOriginChanged when the header is not the one that `layout` came from.
  [[nodiscard]] Status checkLayout(const ModelLayout& layout) const;

  // kOriginChanged when the file was written since open(), or its path now names another one. The
  // file is the same when its size and time of modification are. Another time of change alone comes
  // from links, the mode or the owner, if these are others; else a writer may have put the time of
  // modification back, and `equalsLoaded` must say that the bytes are those that were loaded.
  [[nodiscard]] Status checkUnchanged(const std::function<Result<bool>()>& equalsLoaded) const;

 private:
  ModelFile(std::string path, OwnedFd file, OwnedFd direct, const struct stat& opened)
      : path_(std::move(path)),
        file_(std::move(file)),
        direct_(std::move(direct)),
        opened_(opened),
        bytes_(static_cast<std::uint64_t>(opened.st_size)) {}
  [[nodiscard]] Status readHeader();
  [[nodiscard]] Result<std::string> headerText() const;
  [[nodiscard]] Error changed(std::string_view how) const;
  [[nodiscard]] Result<std::uint64_t> readDirect(std::byte* into, std::uint64_t offset,
                                                 std::uint64_t size) const;

  const std::string path_;
  const OwnedFd file_;
  const OwnedFd direct_;  // the same file with O_DIRECT; none where the file system has no such
  const struct stat opened_;
  const std::uint64_t bytes_;
  SafetensorsHeader header_;
  std::uint64_t dataOffset_ = 0;
  std::uint32_t headerChecksum_ = 0;
};

}  // namespace hearth

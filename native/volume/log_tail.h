// The last groups of a volume's log (log_segment.h) in memory that outlives the process: a file of
// a tmpfs, mapped. A group that was copied there survives its process as a written file does, and
// the copy waits for nothing. The log writes the groups to its segment later; a leader that finds
// groups which its segment lacks appends their records.
//
// 64 bytes, those of a segment's head but for "HRTHTAIL", name the segment. The groups follow as
// they stand in the segment, one behind the other, and 24 zeros end them. A process that is killed
// leaves a group whole, or one that its checksums refuse.
//
// Used on one reactor's thread, but for what blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/owned_fd.h"
#include "base/result.h"
#include "volume/log_segment.h"

namespace hearth {

class LogTail {
 public:
  static constexpr std::size_t kBytes = std::size_t{256} << 10;

  // Maps the file that an earlier process left. Blocks. Null: there is none. kUnsupported: a later
  // release wrote it.
  [[nodiscard]] static Result<std::unique_ptr<LogTail>> find(const std::string& path);
  // Makes the file with all its memory, and its folder (mode 0700) in one that exists. Blocks.
  // kUnsupported: the folder is on no tmpfs.
  [[nodiscard]] static Result<std::unique_ptr<LogTail>> make(const std::string& path);
  ~LogTail();
  LogTail(const LogTail&) = delete;
  LogTail& operator=(const LogTail&) = delete;

  struct Left {
    SegmentHead segment;
    std::uint64_t offset = 0;          // of the first group in that segment
    std::span<const std::byte> bytes;  // groups, and then anything; valid until begin()
  };
  // None: no group is there.
  [[nodiscard]] std::optional<Left> left() const;

  // Drops all groups; takes those of this segment from now on.
  void begin(const SegmentHead& segment);
  // Bytes that one more group may have.
  [[nodiscard]] std::size_t room() const;
  // After begin(). A group of at most room() bytes, which follows the one before in the segment.
  void append(std::span<const std::byte> group);
  // The last of the bytes that were appended since begin(); valid until the next begin().
  [[nodiscard]] std::span<const std::byte> last(std::size_t bytes) const;

 private:
  explicit LogTail(std::span<std::byte> memory) : memory_(memory) {}
  [[nodiscard]] static Result<std::unique_ptr<LogTail>> map(const OwnedFd& file,
                                                            const std::string& path);

  const std::span<std::byte> memory_;
  std::optional<SegmentHead> segment_;  // none before begin()
  std::size_t used_ = kSegmentHeadBytes;
};

}  // namespace hearth

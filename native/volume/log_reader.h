// Reads the durable records of a volume's log while the log is written, in order, from a position
// on. On the log's reactor thread; the log outlives the reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "volume/volume_log.h"

namespace hearth {

class LogReader {
 public:
  explicit LogReader(const VolumeLog& log) : log_(log) {}

  // Goes behind that record; before the first one for position 0. False: the log has no such
  // record, or none of that epoch, or keeps it in a checkpoint alone.
  [[nodiscard]] Task<Result<bool>> seek(LogPosition at);

  struct Batch {
    LogPosition after, last;
    std::vector<std::byte> records;  // one behind the other; empty: there are no more yet
  };
  // After seek(). The records behind those of the last call: `maxBytes` of them at most, which is
  // tree::kMaxRecordBytes at least. kNotFound: a checkpoint has replaced them.
  [[nodiscard]] Task<Result<Batch>> next(std::size_t maxBytes);

 private:
  struct Queued {
    LogPosition position;
    std::vector<std::byte> bytes;
  };

  // Opens the segment that begins with that record. False: there is none.
  [[nodiscard]] Task<Result<bool>> open(std::uint64_t firstRecord);
  // Queues records of the next groups, if there are any; goes on to the next segment.
  [[nodiscard]] Task<Result<bool>> fill();
  // The next bytes of the segment; empty at its end.
  [[nodiscard]] Task<Result<std::vector<std::byte>>> read();

  const VolumeLog& log_;
  std::shared_ptr<File> file_;
  std::string path_;
  std::uint64_t firstRecord_ = 0;  // of the segment
  SegmentReport report_;           // of what was read of it
  LogPosition at_;                 // of the last record that next() gave, or seek() passed
  std::uint64_t seeking_ = 0;      // records up to this one are passed over
  std::deque<Queued> queue_;       // of one read: kMostGroupBytes at most
};

}  // namespace hearth

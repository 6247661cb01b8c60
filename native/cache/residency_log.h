// The residency log of one cache directory: an append-only file of records that say which chunks
// are in the cache files (docs/residency-log.md). What it claims is true after a crash at any
// instant, because its users keep this order:
//   a claim is appended after the data and the name of its file are synced;
//   a drop or retraction is synced before the bytes it is about are unlinked or overwritten, and
//   before anything is reported that relies on their being gone;
//   whatever replay or recovery refused is cut off or dropped, and synced, before anything else
//   is claimed.
//
// Used on one reactor, one call at a time (CacheDirectory's commit lock).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/residency_record.h"
#include "cache/residency_replay.h"
#include "files/file_system.h"

namespace hearth {

class ResidencyLog {
 public:
  // Opens or makes `folder`/residency.log, gives every record to `replayed`, in order, and cuts
  // off, durably, what was torn by a crash. kUnsupported: it needs a later version of Hearth.
  // `files` must remain live while the result is used.
  [[nodiscard]] static Task<Result<std::unique_ptr<ResidencyLog>>> open(
      FileSystem& files, std::string folder, std::function<void(const ResidencyRecord&)> replayed);

  // The report of the replay in open().
  [[nodiscard]] const ReplayReport& report() const { return report_; }
  // The file is of an older version or has rotten bytes in it: rewrite() it before anything is
  // appended.
  [[nodiscard]] bool mustBeRewritten() const { return mustBeRewritten_; }

  // Appends whole records and syncs. After an error nothing of them counts: the next append() or
  // rewrite() first removes what may have been written, and fails when it cannot.
  [[nodiscard]] Task<Status> append(std::span<const std::byte> records);

  // Replaces everything by these records: written aside, synced, renamed, folder synced. After an
  // error the old log or the new one is in force, and both must be true.
  [[nodiscard]] Task<Status> rewrite(std::span<const std::byte> records);

  // Bytes of the file in force, the header included.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  ResidencyLog(FileSystem& files, std::string folder) : files_(files), folder_(std::move(folder)) {}
  [[nodiscard]] std::string path() const { return folder_ + "/residency.log"; }
  [[nodiscard]] std::string aside() const { return path() + ".tmp"; }
  [[nodiscard]] Task<Status> openOrCreate();
  [[nodiscard]] Task<Status> settleRename();
  [[nodiscard]] Task<Status> repairTail();

  FileSystem& files_;
  const std::string folder_;
  std::unique_ptr<File> file_;
  std::uint64_t bytes_ = 0;
  bool tailUncertain_ = false;  // bytes beyond bytes_ may be in the file
  bool nameUncertain_ = false;  // the folder is not synced since the last rename
  // A new log whose rename failed for its caller, and may have been done.
  std::unique_ptr<File> renamed_;
  std::uint64_t renamedBytes_ = 0;
  bool mustBeRewritten_ = false;
  ReplayReport report_;
};

}  // namespace hearth

// Reading a residency log from its beginning: its header, its records, and what of it is damaged.
//
// Every append begins with a record that says so. So damage that has the beginning of an append
// behind it lies in what was synced: bits have rotted, and a drop or retraction may be among what
// is lost. Then all claims so far are in doubt (RecordType::kDoubt is replayed) and reading goes on
// at the next append. Damage at the end that looks like a write which a crash cut short was never
// relied on; it is left out, and nothing is in doubt.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cache/residency_record.h"
#include "files/file_system.h"

namespace hearth {

struct ReplayReport {
  // Bytes that are no records of ours.
  struct Loss {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    std::uint64_t recordsBefore = 0;
    bool torn = false;   // a write that a crash cut short
    std::string reason;  // why what stands at `offset` is no record
  };
  std::uint32_t version = 0;    // of the file; 0: its header cannot be read, and nothing else was
  std::uint64_t records = 0;    // replayed
  std::uint64_t skipped = 0;    // optional ones of types that we do not know
  std::uint64_t goodBytes = 0;  // end of the last record
  std::uint64_t lostBytes = 0;  // of all losses
  std::vector<Loss> losses;     // the first few, in order
  bool rotten = false;          // something was lost that had been synced

  static constexpr std::size_t kMaxLosses = 8;
};

inline constexpr std::uint32_t kLogVersion = 2;
inline constexpr std::uint32_t kLogMinorVersion = 0;
inline constexpr std::size_t kLogHeaderBytes = 64;

// The header of a log that we write.
[[nodiscard]] std::vector<std::byte> logHeader();

// Gives the records of `file` to `replayed`, in order, except the beginnings of appends. `path` is
// for messages. kUnsupported: the log needs a later version of Hearth. The file is not changed.
[[nodiscard]] Task<Result<ReplayReport>> replayLog(
    File& file, std::string path, std::function<void(const ResidencyRecord&)> replayed);

}  // namespace hearth

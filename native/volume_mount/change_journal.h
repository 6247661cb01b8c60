// The changes that a mount's unanswered requests have asked for, in the shared memory that the
// holder keeps: the next agent, to which the kernel sends the requests again, asks the leader for
// their answers. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "volume/request_note.h"

namespace hearth {

// Of the machine's byte order; free while `unique` is 0.
struct JournalEntry {
  std::uint64_t unique = 0;  // the kernel's number of the request
  AskedChange asked;
};
static_assert(sizeof(JournalEntry) == 32);

class ChangeJournal {
 public:
  // As many requests as may be pending (VolumeAnswers), and as many that earlier agents answered
  // and had no time to drop.
  static constexpr std::size_t kEntries = 2048;

  // Takes over what earlier agents have left. `entries` outlive the journal.
  explicit ChangeJournal(std::span<JournalEntry> entries);

  [[nodiscard]] std::optional<AskedChange> find(std::uint64_t unique) const;
  // In place of what the request asked for before. False: every entry is of a request that this
  // agent has not answered.
  [[nodiscard]] bool keep(std::uint64_t unique, const AskedChange& asked);
  // The request is answered.
  void drop(std::uint64_t unique);

 private:
  [[nodiscard]] JournalEntry* take(std::uint64_t unique);

  std::vector<JournalEntry*> free_;
  std::map<std::uint64_t, JournalEntry*> inherited_;  // oldest first: the kernel counts upwards
  std::unordered_map<std::uint64_t, JournalEntry*> own_;
};

}  // namespace hearth

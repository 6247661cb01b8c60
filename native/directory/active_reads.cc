#include "directory/active_reads.h"

#include <algorithm>

namespace hearth {

void ActiveReads::begin(std::uint32_t chunk, const std::string& reader, const std::string& holder,
                        TimePoint now) {
  end(chunk, reader);
  reads_[chunk].push_back({.reader = reader, .holder = holder, .since = now});
}

void ActiveReads::end(std::uint32_t chunk, const std::string& reader) {
  const auto reads = reads_.find(chunk);
  if (reads == reads_.end()) return;
  std::erase_if(reads->second, [&](const Read& read) { return read.reader == reader; });
  if (reads->second.empty()) reads_.erase(reads);
}

void ActiveReads::forget(const std::string& reader) {
  for (auto reads = reads_.begin(); reads != reads_.end();) {
    std::erase_if(reads->second, [&](const Read& read) { return read.reader == reader; });
    reads = reads->second.empty() ? reads_.erase(reads) : std::next(reads);
  }
}

std::size_t ActiveReads::readersOf(std::uint32_t chunk, const std::string& holder) const {
  const auto reads = reads_.find(chunk);
  if (reads == reads_.end()) return 0;
  return static_cast<std::size_t>(
      std::count_if(reads->second.begin(), reads->second.end(),
                    [&](const Read& read) { return read.holder == holder; }));
}

std::string ActiveReads::nameReader(std::uint32_t chunk, const std::string& asker, TimePoint now) {
  const auto reads = reads_.find(chunk);
  if (reads == reads_.end()) return {};
  std::erase_if(reads->second, [&](const Read& read) { return now - read.since > kTimeout; });
  Read* least = nullptr;
  for (Read& read : reads->second) {
    if (read.reader != asker && (least == nullptr || read.named < least->named)) least = &read;
  }
  const std::string name = least == nullptr ? std::string() : least->reader;
  if (least != nullptr) ++least->named;
  if (reads->second.empty()) reads_.erase(reads);
  return name;
}

ActiveReads::TimePoint ActiveReads::since(std::uint32_t chunk, const std::string& reader) const {
  const auto reads = reads_.find(chunk);
  if (reads == reads_.end()) return {};
  for (const Read& read : reads->second) {
    if (read.reader == reader) return read.since;
  }
  return {};
}

}  // namespace hearth

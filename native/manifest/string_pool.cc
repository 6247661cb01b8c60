#include "manifest/string_pool.h"

#include <cstring>

namespace hearth {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;

// FNV-1a with a final mix (murmur3's); only the table's layout in memory depends on it.
std::uint32_t hashOf(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3;
  hash ^= hash >> 33;
  hash *= 0xff51afd7ed558ccd;
  return static_cast<std::uint32_t>(hash >> 32);
}

}  // namespace

StringPool::StringPool() : table_(1024, kNone) { records_.push_back({"", 0, 0, 0}); }

StringPool::Id StringPool::intern(std::string_view text) {
  if (text.empty()) return kNone;
  if (records_.size() * 3 > table_.size() * 2) grow();
  const std::uint32_t hash = hashOf(text);
  const std::size_t mask = table_.size() - 1;
  std::size_t slot = hash & mask;
  for (; table_[slot] != kNone; slot = (slot + 1) & mask) {
    const Record& record = records_[table_[slot]];
    if (record.hash == hash && std::string_view(record.bytes, record.length) == text) {
      return table_[slot];
    }
  }
  const auto id = static_cast<Id>(records_.size());
  records_.push_back({keep(text), static_cast<std::uint32_t>(text.size()), hash, kUnplaced});
  table_[slot] = id;
  return id;
}

const char* StringPool::keep(std::string_view text) {
  if (text.size() > blockLeft_) {
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(kBlockBytes));
    blockNext_ = blocks_.back().get();
    blockLeft_ = kBlockBytes;
  }
  char* const bytes = blockNext_;
  std::memcpy(bytes, text.data(), text.size());
  blockNext_ += text.size();
  blockLeft_ -= text.size();
  return bytes;
}

void StringPool::grow() {
  table_.assign(table_.size() * 2, kNone);
  const std::size_t mask = table_.size() - 1;
  for (Id id = 1; id < records_.size(); ++id) {
    std::size_t slot = records_[id].hash & mask;
    while (table_[slot] != kNone) slot = (slot + 1) & mask;
    table_[slot] = id;
  }
}

manifest_format::StringReference StringPool::place(Id id) {
  Record& record = records_[id];
  if (record.placed == kUnplaced) {
    record.placed = placedBytes_;
    placedBytes_ += record.length;
  }
  return manifest_format::StringReference::of(record.placed, record.length);
}

void StringPool::write(char* into) const {
  for (const Record& record : records_) {
    if (record.placed != kUnplaced) std::memcpy(into + record.placed, record.bytes, record.length);
  }
}

}  // namespace hearth

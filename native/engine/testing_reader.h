// Reads files as mounts do, without a mount. For tests.
#pragma once

#include <future>

#include "engine/testing_cluster.h"
#include "mount/dataset_source.h"

namespace hearth::testing_cluster {

// Notes how long the slowest of some calls took.
class Stopwatch {
 public:
  template <class Call>
  auto time(Call&& call) {
    const Clock::time_point began = Clock::now();
    auto result = call();
    longest_ = std::max(longest_, Clock::now() - began);
    return result;
  }
  [[nodiscard]] Clock::duration longest() const { return longest_; }

 private:
  Clock::duration longest_{};
};

// Returns all bytes of the file through `source`, read in pieces of `step`, or the first error.
// `watch` times the open and each read.
inline Result<std::vector<char>> readThrough(DatasetSource& source, std::uint32_t entry,
                                             std::uint32_t step, Stopwatch* watch = nullptr) {
  Stopwatch own;
  Stopwatch& timing = watch != nullptr ? *watch : own;
  const auto opened = timing.time([&] { return source.openFile(entry); });
  if (!opened.ok()) return opened.error();
  std::vector<char> all;
  const std::uint64_t size = source.manifest().entry(entry).size;
  const auto append = [&all](std::span<const std::byte> bytes) {
    const auto* const text = reinterpret_cast<const char*>(bytes.data());
    all.insert(all.end(), text, text + bytes.size());
  };
  while (all.size() < size) {
    const Result<MappedBytes> bytes = timing.time([&] {
      Result<MappedBytes> here = (*opened)->tryRead(all.size(), step);
      if (here.ok()) return here;
      std::promise<Result<MappedBytes>> promise;
      (*opened)->read(all.size(), step,
                      [&promise](Result<MappedBytes> answer) { promise.set_value(answer); });
      return promise.get_future().get();
    });
    if (!bytes.ok()) return bytes.error();
    append(bytes->bytes);
    append(bytes->rest);
  }
  return all;
}

// Expects that the file has the bytes that the origin gave it.
inline void expectFile(DatasetSource& source, const Origin& origin, std::size_t file,
                       std::uint32_t step, Stopwatch* watch = nullptr) {
  const auto entry = source.manifest().lookUp(origin.names()[file]);
  ASSERT_TRUE(entry.has_value());
  const std::uint64_t size = source.manifest().entry(*entry).size;
  const Result<std::vector<char>> bytes = readThrough(source, *entry, step, watch);
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  EXPECT_TRUE(*bytes == pattern(size, static_cast<unsigned>(file + 1))) << origin.names()[file];
}

}  // namespace hearth::testing_cluster

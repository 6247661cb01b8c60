// Verified bytes of a cache file for a shard: mapped pages may have to come from the disk, and
// their checksums take time, so both happen on a helper thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>

#include "cache/content_cache.h"
#include "reactor/reactor.h"

namespace hearth {

// Runs `call`, which may wait for the disk of `file` and returns a Result or a Status, on a thread
// of that disk, and continues on this shard with its result. kUnavailable: the disk hangs. Then
// `call` may still run, so that it owns what it uses.
template <class F>
[[nodiscard]] Task<std::invoke_result_t<F&>> callDisk(std::shared_ptr<CachedFile> file, F call) {
  const auto value = std::make_shared<std::optional<std::invoke_result_t<F&>>>();
  std::function<void()> work = [value, call = std::move(call)]() mutable {
    value->emplace(call());
  };
  const Status called = co_await file->onDisk(std::move(work));
  if (!called.ok()) co_return called.error();
  co_return std::move(**value);
}

// As CachedFile::verified. The memory stays valid as long as the file.
[[nodiscard]] inline Task<Result<std::span<const std::byte>>> readVerified(
    std::shared_ptr<CachedFile> file, std::uint64_t offset, std::uint64_t length) {
  CachedFile& read = *file;
  return callDisk(std::move(file),
                  [&read, offset, length] { return read.verified(offset, length); });
}

}  // namespace hearth

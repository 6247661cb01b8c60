#include "sessions/spare_files.h"

#include <unistd.h>

#include <optional>
#include <utility>

namespace hearth {
namespace {

constexpr Clock::duration kRetryAfter = std::chrono::seconds(1);

}  // namespace

SpareFiles::SpareFiles(Reactor& reactor, std::string folder)
    : reactor_(reactor), folder_(std::move(folder)), running_(reactor) {}

Task<Result<OwnedFd>> SpareFiles::take(std::string path) {
  std::optional<SpareFile> spare;
  if (!spares_.empty()) {
    spare = std::move(spares_.back());
    spares_.pop_back();
  }
  auto make = [&]() -> Result<OwnedFd> {
    if (spare) {
      Result<OwnedFd> named = nameSpareFile(std::move(*spare), path);
      if (named.ok()) return named;
    }
    // Its error is the open's.
    return makeSessionFile(path);
  };
  Result<OwnedFd> file = co_await reactor_.offload(make);
  fillUp();
  co_return file;
}

void SpareFiles::fillUp() {
  if (filling_ || spares_.size() > kMaxSpares / 2 || Clock::now() < failedUntil_) return;
  filling_ = true;
  running_.spawn(fill());
}

Task<void> SpareFiles::fill() {
  std::vector<SpareFile> made;
  auto make = [this, &made, missing = kMaxSpares - spares_.size()] {
    while (made.size() < missing) {
      Result<SpareFile> file = makeSpareFile(folder_, made_++);
      if (!file.ok()) return false;
      made.push_back(std::move(*file));
    }
    return true;
  };
  if (!co_await reactor_.offload(maker_, make)) failedUntil_ = Clock::now() + kRetryAfter;
  for (SpareFile& file : made) spares_.push_back(std::move(file));
  filling_ = false;
}

Task<void> SpareFiles::close() {
  co_await running_.close();
  if (spares_.empty()) co_return;
  auto remove = [this] {
    for (const SpareFile& spare : spares_) ::unlink(spare.path.c_str());
    spares_.clear();
    return true;
  };
  co_await reactor_.offload(maker_, remove);
}

}  // namespace hearth

#include "sessions/spare_files.h"

#include <optional>
#include <utility>

namespace hearth {
namespace {

constexpr Clock::duration kRetryAfter = std::chrono::seconds(1);

}  // namespace

SpareFiles::SpareFiles(Reactor& reactor, std::string folder)
    : reactor_(reactor), folder_(std::move(folder)), running_(reactor) {}

Task<Result<OwnedFd>> SpareFiles::take(std::string path) {
  std::optional<OwnedFd> spare;
  if (!spares_.empty()) {
    spare = std::move(spares_.back());
    spares_.pop_back();
  }
  auto make = [&]() -> Result<OwnedFd> {
    if (spare && nameSpareFile(spare->get(), path).ok()) return std::move(*spare);
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
  std::vector<OwnedFd> made;
  auto make = [this, &made, missing = kMaxSpares - spares_.size()] {
    while (made.size() < missing) {
      Result<OwnedFd> file = makeSpareFile(folder_);
      if (!file.ok()) return false;
      made.push_back(std::move(*file));
    }
    return true;
  };
  if (!co_await reactor_.offload(maker_, make)) failedUntil_ = Clock::now() + kRetryAfter;
  for (OwnedFd& file : made) spares_.push_back(std::move(file));
  filling_ = false;
}

Task<void> SpareFiles::close() {
  co_await running_.close();
  auto remove = [this] {
    spares_.clear();
    return true;
  };
  co_await reactor_.offload(maker_, remove);
}

}  // namespace hearth

#include "sessions/spare_files.h"

#include <unistd.h>

#include <utility>

namespace hearth {
namespace {

constexpr Clock::duration kRetryAfter = std::chrono::seconds(1);

}  // namespace

SpareFiles::SpareFiles(Reactor& reactor, std::string folder)
    : reactor_(reactor), folder_(std::move(folder)), running_(reactor) {}

std::optional<SpareFile> SpareFiles::takeOne() {
  if (spares_.empty()) return std::nullopt;
  SpareFile spare = std::move(spares_.back());
  spares_.pop_back();
  return spare;
}

std::optional<SpareFile> SpareFiles::takeReady() {
  std::optional<SpareFile> spare = takeOne();
  fillUp();
  return spare;
}

Task<Result<OwnedFd>> SpareFiles::take(std::string path) {
  std::optional<SpareFile> spare = takeOne();
  auto make = [&]() -> Result<OwnedFd> {
    if (spare && nameSpareFile(*spare, path).ok()) return std::move(spare->file);
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
      Result<SpareFile> spare = makeSpareFile(folder_);
      if (!spare.ok()) return false;
      made.push_back(std::move(*spare));
    }
    return true;
  };
  if (!co_await reactor_.offload(maker_, make)) failedUntil_ = Clock::now() + kRetryAfter;
  for (SpareFile& spare : made) spares_.push_back(std::move(spare));
  filling_ = false;
}

Task<void> SpareFiles::close() {
  co_await running_.close();
  auto remove = [this] {
    for (const SpareFile& spare : spares_) ::unlink(spare.path.c_str());
    spares_.clear();
    return true;
  };
  co_await reactor_.offload(maker_, remove);
}

}  // namespace hearth

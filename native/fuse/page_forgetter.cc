#include "fuse/page_forgetter.h"

#include <algorithm>
#include <utility>

namespace hearth {

PageForgetter::~PageForgetter() { close(); }

std::shared_ptr<const void> PageForgetter::reading(std::uint32_t entry) {
  const std::lock_guard lock(mutex_);
  ++reads_[entry];
  return {&reads_, [self = shared_from_this(), entry](const void*) { self->ended(entry); }};
}

void PageForgetter::ended(std::uint32_t entry) {
  const std::lock_guard lock(mutex_);
  const auto reads = reads_.find(entry);
  if (--reads->second != 0) return;
  reads_.erase(reads);
  changed_.notify_all();
}

void PageForgetter::add(std::uint32_t entry) {
  const std::lock_guard lock(mutex_);
  if (closed_) return;
  wanted_.insert(entry);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
}

std::set<std::uint32_t>::iterator PageForgetter::next() {
  return std::find_if(wanted_.begin(), wanted_.end(),
                      [this](std::uint32_t entry) { return !reads_.contains(entry); });
}

void PageForgetter::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return closed_ || next() != wanted_.end(); });
    if (closed_) return;
    const std::uint32_t entry = *next();
    wanted_.erase(entry);
    lock.unlock();
    forget_(entry);
    lock.lock();
  }
}

void PageForgetter::close() {
  std::thread ending;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    ending = std::move(thread_);
    changed_.notify_all();
  }
  if (ending.joinable()) ending.join();
}

}  // namespace hearth

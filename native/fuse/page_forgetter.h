// Has the kernel drop the pages of files whose bytes turned out to be wrong. For pages that are
// being read it waits, and a thread that waits there cannot even be killed: so that is done by a
// thread of its own, while no read of the file waits for its source, and not at the end of a
// session. Any thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

namespace hearth {

class PageForgetter : public std::enable_shared_from_this<PageForgetter> {
 public:
  // `forget` is called for an entry, on a thread of ours, before close() has ended.
  explicit PageForgetter(std::function<void(std::uint32_t entry)> forget)
      : forget_(std::move(forget)) {}
  ~PageForgetter();
  PageForgetter(const PageForgetter&) = delete;
  PageForgetter& operator=(const PageForgetter&) = delete;

  // A read of the entry waits for its source for as long as the result lives.
  [[nodiscard]] std::shared_ptr<const void> reading(std::uint32_t entry);
  // Forgets the entry's pages soon; not after close(). Does not block.
  void add(std::uint32_t entry);
  // Waits for what is being forgotten; nothing else is. Idempotent, by one thread.
  void close();

 private:
  void run();
  void ended(std::uint32_t entry);
  // With the lock. An entry to forget of which nothing is being read; none: the end.
  [[nodiscard]] std::set<std::uint32_t>::iterator next();

  const std::function<void(std::uint32_t)> forget_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::unordered_map<std::uint32_t, std::size_t> reads_;  // that wait, by entry
  std::set<std::uint32_t> wanted_;
  std::thread thread_;  // once something was to be forgotten
  bool closed_ = false;
};

}  // namespace hearth

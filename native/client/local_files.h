// Files that the agent of this node has passed to us, which are read without it. All of a context.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/content_key.h"
#include "base/owned_fd.h"
#include "client/client_options.h"
#include "memory/memory_vector.h"
#include "reactor/reactor.h"
#include "reactor/synchronization.h"
#include "transport/local_link.h"

namespace hearth::gd2fs {

// A whole file of this node's cache. Any thread.
class LocalFile {
 public:
  LocalFile(OwnedFd descriptor, std::uint64_t bytes) : fd_(std::move(descriptor)), size_(bytes) {}

  // Fills `into`, host memory, with [offset, offset + its size), on that reactor's thread.
  // kIoError: the disk failed, or the file has become shorter; kInvalidArgument: the memory is not
  // there.
  [[nodiscard]] Task<Status> read(Reactor& reactor, std::uint64_t offset, MemoryVector into) const;
  void use() { usedAt_ = Clock::now(); }
  [[nodiscard]] Clock::time_point usedAt() const { return usedAt_; }

 private:
  const OwnedFd fd_;
  const std::uint64_t size_;
  std::atomic<Clock::time_point> usedAt_{Clock::now()};
};

// Any thread, unless said otherwise.
class LocalFiles {
 public:
  // Smaller files are not asked for: to pass one takes longer than to read it over the network.
  static constexpr std::uint64_t kFromBytes = 128u << 10;
  // Files that are open at a time; the agent keeps as many for one connection.
  static constexpr std::size_t kMostOpen = 512;

  // `reactor` must remain live while this object is used; its thread speaks with the agent.
  LocalFiles(const ClientOptions& options, Reactor& reactor);

  // The file, when it is open; null otherwise.
  [[nodiscard]] std::shared_ptr<LocalFile> find(const ContentKey& key);
  // Asks the agent for it, unless it has refused it lately or does not listen; null when it does
  // not pass it. Continues on `back`.
  [[nodiscard]] Task<std::shared_ptr<LocalFile>> open(std::string path, ContentKey key,
                                                      std::uint64_t size, Reactor& back);
  // The agent's answer to a message that brings no file; nothing when none of this node
  // answers. Continues on `back`.
  [[nodiscard]] Task<std::optional<Status>> tell(ControlMessage message, Clock::time_point deadline,
                                                 Reactor& back);
  // A read of it has failed: it comes over the network for a while.
  void distrust(const ContentKey& key);
  // On the reactor's thread. Ends the connection; nothing is open afterwards.
  [[nodiscard]] Task<void> close();

 private:
  struct Known {
    std::shared_ptr<LocalFile> file;  // null: not before `until`
    std::uint64_t number = 0;         // of the agent's answer
    Clock::time_point until{};
  };

  [[nodiscard]] bool isRefused(const ContentKey& key);
  void refuse(const ContentKey& key);
  void forgetAll();
  [[nodiscard]] Task<std::shared_ptr<LocalLink>> link();
  [[nodiscard]] Task<std::shared_ptr<LocalFile>> ask(std::string path, ContentKey key,
                                                     std::uint64_t size);
  // Closes what nobody has read from lately, so that the agent may evict it.
  void closeIdle();
  void scheduleClosing();

  const std::string socket_, cluster_;
  const std::function<Result<CapabilityToken>()> token_;
  Reactor& reactor_;
  std::atomic<Clock::time_point> absentUntil_;  // the agent's socket

  // On the reactor's thread.
  Gate gate_;
  Semaphore turn_;
  std::shared_ptr<LocalLink> link_;
  Reactor::Timer idle_;
  bool closing_ = false;

  std::mutex mutex_;
  std::unordered_map<ContentKey, Known, ContentKeyHash> known_;
  std::vector<std::uint64_t> givenUp_;  // numbers of answers that the agent need not keep
};

}  // namespace hearth::gd2fs

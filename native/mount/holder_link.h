// The engine's connection to hearth-holder, one for its mounts and its memory. A thread of its own
// watches the holder: when the holder goes, the thread connects to the next one and gives it what
// this engine serves and has in memory, so that both outlive the engine again. No shard waits for
// the holder. Any thread; functions that block say so.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"
#include "holder/holder_client.h"

namespace hearth {

// Any thread; what blocks says so.
class HolderLink {
 public:
  struct Options {
    std::string owner;
    std::string socket;  // empty: no holder is configured
    // Called on the link's threads, with a warning or a line of information.
    std::function<void(bool warning, const std::string& line)> log;
    // First and longest pause before another try to connect.
    std::chrono::milliseconds firstPause{50};
    std::chrono::milliseconds longestPause{5000};
    // Longer than one request may take at the holder, where each of its calls has 5 s.
    std::chrono::milliseconds callDeadline{20000};
  };

  explicit HolderLink(Options options);
  // As close().
  ~HolderLink();
  HolderLink(const HolderLink&) = delete;
  HolderLink& operator=(const HolderLink&) = delete;

  [[nodiscard]] bool configured() const { return !options_.socket.empty(); }
  // Becomes the owner's agent at the holder, unless it is that already. Blocks until the holder has
  // answered or its deadline is over. kUnavailable, kUnsupported, and kInUse while another agent is
  // the owner's.
  [[nodiscard]] Status connect();
  // The mounts of an earlier agent that the holder had when this one became the owner's agent.
  // Empty before that, and after the first call. connect() has them served (serve()).
  [[nodiscard]] std::vector<HeldMount> takeMounts();
  // Nullptr while no holder is connected. Never waits. Calls of a client block.
  [[nodiscard]] std::shared_ptr<HolderClient> client() const;
  // Why client() is nullptr.
  [[nodiscard]] static Error notConnected();
  [[nodiscard]] static Error notConfigured();

  // Gives `mount`, until forget(), to holders that do not know it. Copies its descriptors.
  [[nodiscard]] Status serve(const HeldMount& mount);
  void forget(const std::string& target);
  // Keeps what FUSE_INIT negotiated, here and at the holder; while none is there, the next one gets
  // it. Blocks for a call.
  [[nodiscard]] Status saveState(const std::string& target, const std::string& state);

  // Makes the holder keep memory of this name, and gives it to each one that follows. Copies
  // `descriptor`. Errors are those of the present holder; while none is there, the next one gets
  // the memory. Blocks for a call.
  [[nodiscard]] Status keep(const HolderMemory& memory, const OwnedFd& descriptor);
  // Ok: the holder has the memory of this name; else why not. Never waits.
  [[nodiscard]] Status keeps(const std::string& name) const;

  // Ends the connection; the holder goes on with mounts and memory. Blocks for at most a call.
  void close();

 private:
  struct Kept {
    std::shared_ptr<const KeptMemory> memory;
    Status refusal;  // of the present holder
  };

  void watch();
  [[nodiscard]] bool pause(std::chrono::milliseconds time);
  [[nodiscard]] Status attachFirst();
  [[nodiscard]] Status recover();
  // Gives the client all served mounts and kept memory, and changes that come meanwhile, until
  // nothing has changed; then the client becomes the present one.
  [[nodiscard]] Status giveAll(const std::shared_ptr<HolderClient>& client);
  void give(HolderClient& client, const HeldMount& mount) const;
  void give(HolderClient& client, const std::shared_ptr<const KeptMemory>& memory);
  void logMissingFeatures(const HolderClient& client) const;
  // With the lock.
  void adopt(std::shared_ptr<HolderClient> client);

  const Options options_;
  std::mutex connecting_;  // one at a time; taken before mutex_
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool attached_ = false;  // once, to any holder
  bool closing_ = false;
  std::shared_ptr<HolderClient> client_;
  std::map<std::string, std::shared_ptr<HeldMount>> served_;  // by target
  std::map<std::string, Kept> kept_;                          // by name
  std::vector<HeldMount> found_;                              // until takeMounts()
  std::thread watcher_;
};

}  // namespace hearth

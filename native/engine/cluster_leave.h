// Asks the directories of keys for leave to evict, on the shards that own the keys, and reports the
// outcome. Logs, every ten seconds at most, how many files were evicted as the last copy.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "directory/release_client.h"
#include "engine/shard.h"

namespace hearth {

class ClusterLeave final : public ClusterCopies {
 public:
  // `commons` must remain live while this object is used.
  explicit ClusterLeave(EngineCommons& commons) : commons_(commons) {}

  static constexpr std::chrono::seconds kBetweenLines{10};

  // On the engine's home. start() allows log lines; stop() writes the last one.
  void start(Reactor& home);
  void stop();

  // Any thread. `others`: the cluster has other ready agents, and all shards know.
  void setOthers(bool others) { others_ = others; }

  [[nodiscard]] bool others() const override { return others_; }
  [[nodiscard]] Task<std::vector<Answer>> ask(std::vector<Copy> copies, Reactor& back) override;
  void evicted(std::vector<Copy> copies) override;
  void kept(std::vector<Copy> copies) override;

 private:
  static Task<void> askOne(Shard& owner, Copy copy, Reactor& back, Answer& answer);
  // On the shard that owns the key.
  void onOwners(std::vector<Copy> copies, void (*report)(Shard&, const Copy&));
  // Any thread.
  void noteLost(const std::vector<Copy>& copies);
  // Home. Writes the line that is due, and waits for the next one.
  void lineDue();
  void writeLine();

  EngineCommons& commons_;
  std::atomic<bool> others_{false};

  // Home, between start() and stop().
  Reactor* home_ = nullptr;
  std::optional<Reactor::Timer> line_;
  Clock::time_point nextLine_ = Clock::time_point::min();

  std::mutex mutex_;                         // guards all below
  std::uint64_t last_ = 0, unanswered_ = 0;  // files since the line before
  bool posted_ = false;                      // lineDue() is posted
};

}  // namespace hearth

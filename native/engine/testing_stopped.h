// An agent that is stopped, as by SIGSTOP. For tests.
#pragma once

#include <condition_variable>
#include <mutex>

#include "engine/testing_cluster.h"

namespace hearth::testing_cluster {

// Makes all shards of an agent stand still while it lives.
class Stopped {
 public:
  explicit Stopped(Agent& agent) {
    for (const auto& shard : agent.engine().commons().shards) {
      ++left_;
      shard->reactor->post([this] {
        std::unique_lock lock(mutex_);
        ++standing_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return over_; });
        --left_;
        changed_.notify_all();
      });
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return standing_ == left_; });
  }
  ~Stopped() {
    std::unique_lock lock(mutex_);
    over_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return left_ == 0; });
  }
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t standing_ = 0, left_ = 0;
  bool over_ = false;
};

}  // namespace hearth::testing_cluster

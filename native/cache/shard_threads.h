// Shards of a test: reactors on threads of their own over the real file system, and a folder on the
// disk.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "cache/content_cache.h"
#include "files/posix_file_system.h"

namespace hearth::testing_support {

class ShardThreads {
 public:
  explicit ShardThreads(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      auto shard = std::make_unique<Shard>();
      shard->reactor = std::move(*Reactor::create());
      shard->files = std::make_unique<PosixFileSystem>(*shard->reactor);
      shard->thread = std::thread([reactor = shard->reactor.get()] { reactor->run(); });
      shards_.push_back(std::move(shard));
    }
  }
  ~ShardThreads() {
    for (const auto& shard : shards_) {
      shard->reactor->stop();
      shard->thread.join();
    }
  }

  std::vector<ShardContext> contexts() {
    std::vector<ShardContext> all;
    for (const auto& shard : shards_) all.push_back({*shard->reactor, *shard->files});
    return all;
  }

  // Starts a task on a shard; the future is ready when it has ended.
  template <class T>
  std::future<T> start(std::size_t shard, Task<T> task) {
    auto promise = std::make_shared<std::promise<T>>();
    std::future<T> future = promise->get_future();
    auto held = std::make_shared<Task<T>>(std::move(task));
    shards_[shard]->reactor->post([held, promise] { spawn(finish(std::move(*held), promise)); });
    return future;
  }
  template <class T>
  T run(std::size_t shard, Task<T> task) {
    std::future<T> future = start(shard, std::move(task));
    if (future.wait_for(std::chrono::seconds(30)) != std::future_status::ready) {
      ADD_FAILURE() << "a task did not end within 30 s";
      std::abort();
    }
    return future.get();
  }

 private:
  struct Shard {
    std::unique_ptr<Reactor> reactor;
    std::unique_ptr<PosixFileSystem> files;
    std::thread thread;
  };
  template <class T>
  static Task<void> finish(Task<T> task, std::shared_ptr<std::promise<T>> promise) {
    if constexpr (std::is_void_v<T>) {
      co_await task;
      promise->set_value();
    } else {
      promise->set_value(co_await task);
    }
  }
  std::vector<std::unique_ptr<Shard>> shards_;
};

class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/var/tmp/hearth-cache-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    path = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  std::string path;
};

}  // namespace hearth::testing_support

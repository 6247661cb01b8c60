// LeaderServices of one volume on several nodes of one reactor, each with files of its own, and the
// network between them. For tests.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "files/crash_file_system.h"
#include "namespace/testing/led_namespace.h"
#include "volume/leader_service.h"

namespace hearth::testing_support {

inline const tree::WideId kClusterVolume{2};

class ServiceCluster {
 public:
  struct Node {
    std::unique_ptr<CrashFileSystem> files;
    std::unique_ptr<LeaderService> service;
    std::uint64_t changes = 0;
  };

  explicit ServiceCluster(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      nodes_[name].files = std::make_unique<CrashFileSystem>();
      EXPECT_TRUE(run(filesOf(name).makeDirectory("/v", 0700)).ok());
      EXPECT_TRUE(run(filesOf(name).syncDirectory("/")).ok());
      start(name);
    }
  }
  ServiceCluster(const ServiceCluster&) = delete;
  ServiceCluster& operator=(const ServiceCluster&) = delete;
  ~ServiceCluster() {
    for (auto& [name, node] : nodes_) stop(name);
  }

  template <class T>
  T run(Task<T> task) {
    return reactor->runUntilComplete(std::move(task));
  }
  void runVoid(Task<void> task) {
    const auto wrap = [](Task<void> inner) -> Task<bool> {
      co_await inner;
      co_return true;
    };
    (void)run(wrap(std::move(task)));
  }
  LeaderService& at(const std::string& name) { return *nodes_.at(name).service; }
  CrashFileSystem& filesOf(const std::string& name) { return *nodes_.at(name).files; }

  void start(const std::string& name) {
    LeaderService::Ports ports{
        .reactor = *reactor,
        .files = *nodes_.at(name).files,
        .bootMs = [] { return std::int64_t{0}; },
        .isGone = [](const std::string&) { return false; },
        .call =
            [this, name](std::string to, ControlMessage request, Clock::time_point) {
              return deliver(name, std::move(to), std::move(request));
            }};
    nodes_.at(name).service = std::make_unique<LeaderService>(
        std::move(ports), VolumeLog::Options{.folder = "/v/volumes/x/log",
                                             .tree = {.store = {1}, .volume = kClusterVolume},
                                             .durability = LogDurability::kWritten});
    at(name).setLeader(leader_);
  }
  // An orderly end of the agent.
  void stop(const std::string& name) {
    if (nodes_.at(name).service != nullptr) runVoid(at(name).close());
    nodes_.at(name).service.reset();
  }
  // The agent is killed: its files are as it has written them.
  void kill(const std::string& name) {
    cut.insert(name);
    nodes_.at(name).files = [&] {
      auto left = nodes_.at(name).files->killCopy();
      stop(name);
      return left;
    }();
    cut.erase(name);
  }

  Status lead(const std::string& name, std::uint64_t epoch, std::vector<std::string> followers) {
    leader_ = LeaderService::Leader{name, epoch};
    for (auto& [node, state] : nodes_) {
      if (state.service != nullptr) state.service->setLeader(leader_);
    }
    listed = followers;
    return run(at(name).lead(epoch, std::int64_t{1} << 60, std::move(followers)));
  }
  // As the agent's policy does: writes the list that the leader wants.
  std::vector<std::string> keepList(const std::vector<std::string>& candidates) {
    LeaderService& leader = at(leader_->node);
    leader.setFollowers(leader_->epoch, candidates);
    auto wanted =
        run(leader.followersWanted(leader_->epoch, listed, Clock::now() + std::chrono::seconds(5)));
    EXPECT_TRUE(wanted.ok());
    listed = *wanted;
    leader.setFollowers(leader_->epoch, candidates, listed);
    return listed;
  }
  bool make(const std::string& file) {
    LeaderService& leader = at(leader_->node);
    const std::uint64_t epoch = leader_->epoch;
    if (!run(leader.join("client", {kClusterVolume, {7}, epoch})).ok()) return false;
    const auto made = run(
        leader.change("client", {kClusterVolume,
                                 {7},
                                 epoch,
                                 ++number_,
                                 number_,
                                 tree::Create{.place = tree::inRoot(file), .exclusive = true}}));
    return made.ok() && made->answer.error == 0;
  }
  bool has(const std::string& file) {
    const auto found = run(
        at(leader_->node)
            .query("client", {kClusterVolume, leader_->epoch, LookUpQuery{tree::inRoot(file)}}));
    return found.ok() && found->error == 0;
  }
  void eventually(const std::function<bool()>& condition) {
    const Clock::time_point until = Clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      ASSERT_LT(Clock::now(), until);
      runVoid(pause());
    }
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  std::set<std::string> cut;  // nodes that no message reaches or leaves
  std::vector<std::string> listed;

 private:
  Task<void> pause() { co_await reactor->sleep(std::chrono::milliseconds(5)); }
  Task<Result<ControlMessage>> deliver(std::string from, std::string to, ControlMessage request) {
    co_await reactor->sleep(std::chrono::milliseconds(1));
    const auto found = nodes_.find(to);
    const bool reached = found != nodes_.end() && found->second.service != nullptr &&
                         !cut.contains(from) && !cut.contains(to);
    if (!reached) co_return Error{ErrorCode::kUnavailable, to + " does not answer"};
    co_return co_await found->second.service->onControl(std::move(from), std::move(request));
  }

  std::map<std::string, Node> nodes_;
  std::optional<LeaderService::Leader> leader_;
  std::uint64_t number_ = 0;
};

}  // namespace hearth::testing_support

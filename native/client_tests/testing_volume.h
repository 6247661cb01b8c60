// For tests: three agents with a scratch volume, `kv`, whose names the first one leads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client_tests/testing_client.h"

namespace hearth::testing_client {

class VolumeCluster {
 public:
  static constexpr tree::WideId kVolume{3};

  explicit VolumeCluster(VolumeLimits limits = {}) {
    connect({&a, &b, &c});
    const VolumeOptions options{.id = kVolume,
                                .store = {4},
                                .name = "kv",
                                .deadline = std::chrono::seconds(10),
                                .limits = limits};
    for (Agent* const agent : all()) agent->await(set(agent->engine(), {options}));
    constexpr std::int64_t kForEver = std::int64_t{1} << 60;
    EXPECT_TRUE(a.await(a.engine().volumes().lead({kVolume, 1, kForEver})).ok());
    for (Agent* const agent : all()) agent->engine().volumes().setLeader(kVolume, {{"a", 1}});
  }

  [[nodiscard]] std::vector<Agent*> all() { return {&a, &b, &c}; }
  // Session files of the agent's node.
  [[nodiscard]] static std::uint64_t sessionsOf(Agent& agent) {
    return agent.await(agent.engine().volumes().statistics()).at(0).sessions;
  }
  // Ranges of clients that are under way there.
  [[nodiscard]] static std::size_t rangesOf(Agent& agent) {
    const std::shared_ptr<Volume> volume = agent.engine().volumes().find(kVolume);
    return runOn(*volume->shard.reactor, count(volume->writes));
  }

  Agent a{"a"}, b{"b"}, c{"c"};

 private:
  static Task<bool> set(Engine& engine, std::vector<VolumeOptions> volumes) {
    co_await engine.setVolumes(std::move(volumes));
    co_return true;
  }
  static Task<std::size_t> count(const ClientWrites& writes) { co_return writes.underWay(); }
};

// For reading and writing the volume; with kDelete also for removing files.
inline Capability volumeCapability(std::uint32_t more = 0) {
  Capability capability = capabilityOf({"volume:kv"});
  capability.rights |= static_cast<std::uint32_t>(CapabilityRight::kWrite) | more;
  return capability;
}

}  // namespace hearth::testing_client

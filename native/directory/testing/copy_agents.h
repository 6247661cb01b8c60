// Agents on one reactor that hold copies of one key, and ask one another about them over a network
// on which each message takes a few turns. For tests.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "directory/directory_service.h"
#include "directory/release_client.h"
#include "transport/testing/unreachable_transport.h"

namespace hearth::directory_testing {

inline constexpr std::uint64_t kCopySize = 19 * kChunkBytes + 1;
inline const HeldChunks kWholeCopy = {0xffff, 0xf};

// The chunks of one agent.
struct Copy final : LocalChunks {
  AgentReport report(const ContentKey&) override {
    AgentReport part{.held = chunks};
    if (!old) part.copy = CopyState{stored, asked, request};
    return part;
  }
  std::optional<ChunkMask> held(const ContentKey&, std::uint32_t stripe) override {
    if (chunks.empty() && !wanted) return std::nullopt;
    return stripe < chunks.size() ? chunks[stripe] : ChunkMask{0};
  }
  void beginRelease(const ContentKey&, const std::string& home, std::uint64_t number) override {
    asked = home;
    request = number;
  }
  void endRelease(const ContentKey&, std::uint64_t number) override {
    if (number == request) asked.clear();
  }
  void noteUse(const ContentKey&, std::int64_t usedAt) override {
    usedAtMs = std::max(usedAtMs, usedAt);
  }

  HeldChunks chunks;
  bool wanted = false;  // also when there is none of it
  bool stored = true;
  bool old = false;  // of a release that knows no leave
  std::string asked;
  std::uint64_t request = 0;
  std::int64_t usedAtMs = 0;
};

class CopyAgents {
 public:
  struct Agent;

  explicit CopyAgents(std::vector<std::string> names);
  ~CopyAgents();

  // Begins again, with the copy that it has and no other memory.
  void restart(const std::string& name);
  // `who` knows only these.
  void setView(const std::string& who, const std::vector<std::string>& ready);
  [[nodiscard]] Agent& at(const std::string& name);
  // A key of which `home` is the directory when all agents are ready.
  [[nodiscard]] ContentKey keyAt(const std::string& home) const {
    for (std::uint64_t number = 0;; ++number) {
      ContentKey key;
      std::memcpy(key.bytes.data(), &number, sizeof number);
      if (viewOf(home, names_)->directoriesOf(key).front() == home) return key;
    }
  }
  // Up to so many turns of the reactor.
  Task<void> wait(unsigned most) {
    for (std::uint64_t turns = random() % (most + 1); turns > 0; --turns)
      co_await reactor->sleep(Clock::duration::zero());
  }

  std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  std::mt19937_64 random{1};
  unsigned latency = 3;  // turns that a message takes at most
  unsigned lost = 0;     // percent of messages
  std::size_t calls = 0;

 private:
  class Network;

  [[nodiscard]] static std::shared_ptr<const ClusterView> viewOf(
      const std::string& self, const std::vector<std::string>& ready) {
    std::vector<ClusterMember> members;
    for (const std::string& name : ready) members.push_back({{name, "1", {}}, "", "", true});
    return std::make_shared<const ClusterView>(self, std::move(members));
  }
  static Task<bool> closed(Gate& gate) {
    co_await gate.close();
    co_return true;
  }
  void start(const std::string& name);

  const std::vector<std::string> names_;
  std::map<std::string, std::unique_ptr<Agent>> agents_;
};

class CopyAgents::Network final : public testing_rails::UnreachableTransport {
 public:
  Network(CopyAgents& agents, const std::string& self) : agents_(agents), self_(self) {}
  Task<Result<ControlMessage>> call(std::string node, ControlMessage request,
                                    RequestTimeouts timeouts) override;
  bool lives(const std::string& node, Clock::duration) override;

 private:
  CopyAgents& agents_;
  const std::string& self_;
};

struct CopyAgents::Agent {
  Agent(CopyAgents& all, std::string named)
      : name(std::move(named)),
        gate(*all.reactor),
        view(viewOf(name, all.names_)),
        network(all, name),
        ports{name, *all.reactor, gate, view, network, copy, counters} {}

  // As the engine's PeerService does.
  Task<Result<ControlMessage>> answer(std::string from, ControlMessage request) {
    const auto type = static_cast<DirectoryMessage>(request.type);
    if (type == DirectoryMessage::kUpdates) {
      const auto updates = decodeDirectoryUpdates(request.body);
      for (const DirectoryUpdate& update : *updates) service.apply(from, update);
      co_return ControlMessage{request.type, {}};
    }
    const DirectoryRequest about = *decodeDirectoryRequest(request.body);
    if (type == DirectoryMessage::kQuery) {
      if (about.leave) copy.noteUse(about.key, about.leave->usedAtMs);
      request.body = encode(copy.report(about.key));
    } else if (type == DirectoryMessage::kRelease && !copy.old) {
      request.body = encode(co_await releases.release(std::move(from), about));
    } else if (type == DirectoryMessage::kHave || type == DirectoryMessage::kDropped) {
      service.apply(from, {type, about});
    } else {
      co_return Error{ErrorCode::kProtocolError, "an unknown control message"};
    }
    co_return request;
  }

  const std::string name;
  bool silent = false;  // answers nothing, and shows so at once
  bool hangs = false;   // answers nothing until the asker's deadline
  bool living = true;   // gives signs of life meanwhile
  Copy copy;
  Gate gate;
  std::shared_ptr<const ClusterView> view;
  Network network;
  DirectoryCounters counters;
  DirectoryPorts ports;
  DirectoryService service{ports};
  CopyReleases releases{ports, service};
  DirectoryClient client{ports, service};
  ReleaseClient leave{ports, releases, client};
};

inline CopyAgents::CopyAgents(std::vector<std::string> names) : names_(std::move(names)) {
  for (const std::string& name : names_) start(name);
}

inline CopyAgents::~CopyAgents() {
  for (const std::string& name : names_) reactor->runUntilComplete(closed(at(name).gate));
}

inline void CopyAgents::restart(const std::string& name) {
  Copy copy = std::move(at(name).copy);
  copy.asked.clear();
  reactor->runUntilComplete(closed(at(name).gate));
  start(name);
  at(name).copy = std::move(copy);
}

inline void CopyAgents::setView(const std::string& who, const std::vector<std::string>& ready) {
  at(who).view = viewOf(who, ready);
}

inline CopyAgents::Agent& CopyAgents::at(const std::string& name) { return *agents_.at(name); }

inline void CopyAgents::start(const std::string& name) {
  agents_[name] = std::make_unique<Agent>(*this, name);
}

inline Task<Result<ControlMessage>> CopyAgents::Network::call(std::string node,
                                                              ControlMessage request,
                                                              RequestTimeouts timeouts) {
  const Error silence{ErrorCode::kDeadlineExceeded, "no answer"};
  ++agents_.calls;
  co_await agents_.wait(agents_.latency);
  if (agents_.at(node).hangs) {
    while (Clock::now() < timeouts.deadline)
      co_await agents_.reactor->sleep(Clock::duration::zero());
    co_return silence;
  }
  if (agents_.at(node).silent || agents_.random() % 100 < agents_.lost) co_return silence;
  Result<ControlMessage> answer = co_await agents_.at(node).answer(self_, std::move(request));
  co_await agents_.wait(agents_.latency);
  if (agents_.random() % 100 < agents_.lost) co_return silence;
  co_return answer;
}

inline bool CopyAgents::Network::lives(const std::string& node, Clock::duration) {
  const Agent& agent = agents_.at(node);
  return agent.living && !agent.silent;
}

}  // namespace hearth::directory_testing

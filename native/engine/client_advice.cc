#include "engine/client_advice.h"

#include <cstring>

#include "base/sha256.h"

namespace hearth {
namespace {

Advice adviceFor(const AdviseRequest& request) {
  if (request.advice == ClientAdvice::kDontNeed) return Advice::kDontNeed;
  return request.scope == AdviceScope::kCluster ? Advice::kWillNeedCluster : Advice::kWillNeed;
}

// The reader that a token counts as. Tokens with other rights, datasets or times are other readers.
std::uint64_t readerOf(const Capability& client) {
  const Result<std::vector<std::byte>> claims = encodeCapability(client);
  if (!claims.ok()) return 0;
  const Sha256Digest digest = Sha256::of(*claims);
  std::uint64_t reader = 0;
  std::memcpy(&reader, digest.data(), sizeof reader);
  return reader;
}

}  // namespace

ClientAdvices::ClientAdvices(const MountPorts& ports)
    : ports_(ports),
      pace_(
          std::make_shared<AdvicePace>([&demand = ports.demand] { return demand.bytes.load(); })) {}

std::shared_ptr<MountAdvice> ClientAdvices::of(const std::shared_ptr<Dataset>& dataset) {
  const std::lock_guard lock(mutex_);
  if (closed_) return nullptr;
  if (const auto known = advices_.find(dataset); known != advices_.end()) return known->second;
  std::erase_if(advices_, [](const auto& entry) { return entry.second->underWay() == 0; });
  const auto made = std::make_shared<MountAdvice>(ports_, dataset);
  advices_.emplace(dataset, made);
  return made;
}

Status ClientAdvices::advise(const NamedEntry& at, const AdviseRequest& request,
                             const Capability& client) {
  return begin(at, request, readerOf(client), client.client);
}

Status ClientAdvices::advisePassedOn(const std::string& node, const NamedEntry& at,
                                     const AdviseRequest& request) {
  // No namespace begins so.
  const std::string name = "/" + node;
  return begin(at, request, std::hash<std::string>()(node), {name, name});
}

Status ClientAdvices::begin(const NamedEntry& at, const AdviseRequest& request,
                            std::uint64_t reader, ClientIdentity client) {
  const std::shared_ptr<MountAdvice> advice = of(at.revision);
  if (advice == nullptr) return Error{ErrorCode::kCancelled, "the agent is shutting down"};
  WarmPace pace = [pace = pace_, client = std::move(client)](std::uint64_t bytes) {
    return pace->tryTake(client, bytes, Clock::now());
  };
  const Status begun = advice->advise(at.entry, adviceFor(request), reader, std::move(pace));
  // Another agent would be as busy, so the client need not ask one.
  if (begun.code() == ErrorCode::kUnavailable)
    return Error{ErrorCode::kInUse, begun.error().message};
  return begun;
}

void ClientAdvices::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (const auto& [dataset, advice] : advices_) advice->close();
}

}  // namespace hearth

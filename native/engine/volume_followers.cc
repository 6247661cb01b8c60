// The agent's calls about the followers of a volume's leader.
#include <utility>

#include "engine/volume_calls.h"
#include "volume/volume_control.h"

namespace hearth {
namespace {

Error notKnownHere(const tree::WideId& id) {
  return {ErrorCode::kNotFound, "no volume " + hexOf(id) + " is known here"};
}

}  // namespace

void VolumeCalls::setFollowers(VolumeFollowers followers) {
  const std::shared_ptr<Volume> volume = find(followers.id);
  if (volume == nullptr) return;
  volume->shard.reactor->post([volume, set = std::move(followers)] {
    volume->service.setFollowers(set.epoch, set.candidates, set.listed);
  });
}

Task<Result<std::vector<std::string>>> VolumeCalls::followersWanted(tree::WideId id,
                                                                    std::uint64_t epoch,
                                                                    std::vector<std::string> known,
                                                                    Clock::duration timeout) {
  const std::shared_ptr<Volume> volume = find(id);
  if (volume == nullptr) co_return notKnownHere(id);
  co_await volume->shard.reactor->enter();
  auto wanted =
      co_await volume->service.followersWanted(epoch, std::move(known), Clock::now() + timeout);
  co_await home_.reactor->enter();
  co_return wanted;
}

Task<void> VolumeCalls::askPosition(std::shared_ptr<Volume> volume, std::uint64_t epoch,
                                    std::string node, Clock::time_point deadline,
                                    std::vector<NodeLogPosition>& into) {
  const LogStateMessage message{volume->options.id, epoch};
  Shard& shard = volume->shard;
  if (node == shard.commons.self) {
    const auto reply = co_await volume->service.logState(message);
    if (reply.ok()) into.push_back({std::move(node), reply->last});
    co_return;
  }
  const ControlMessage request{static_cast<std::uint16_t>(VolumeControl::kLogState),
                               encode(message)};
  const auto answer = co_await shard.transport->call(node, request, deadline);
  if (!answer.ok()) co_return;
  const auto reply = decodeFollowerReply(answer->body);
  if (reply) into.push_back({std::move(node), reply->last});
}

Task<Result<std::vector<NodeLogPosition>>> VolumeCalls::logPositions(tree::WideId id,
                                                                     std::uint64_t epoch,
                                                                     std::vector<std::string> nodes,
                                                                     Clock::duration timeout) {
  const std::shared_ptr<Volume> volume = find(id);
  if (volume == nullptr) co_return notKnownHere(id);
  co_await volume->shard.reactor->enter();
  std::vector<NodeLogPosition> positions;
  {
    Gate asking(*volume->shard.reactor);
    const Clock::time_point deadline = Clock::now() + timeout;
    for (std::string& node : nodes) {
      asking.spawn(askPosition(volume, epoch, std::move(node), deadline, positions));
    }
    co_await asking.close();
  }
  co_await home_.reactor->enter();
  co_return positions;
}

}  // namespace hearth

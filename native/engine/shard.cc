#include "engine/shard.h"

#include "directory/copy_releases.h"
#include "directory/directory_client.h"
#include "directory/directory_service.h"
#include "directory/release_client.h"
#include "engine/peer_service.h"
#include "fetch/fetcher.h"
#include "fetch/memory_tier.h"
#include "warm/file_verifier.h"

namespace hearth {

Shard::Shard(EngineCommons& shared) : commons(shared) {}
Shard::~Shard() = default;

void EngineCommons::log(EngineEvent::Level level, std::string message,
                        std::map<std::string, std::string> fields) const {
  hearth::log(events, level, std::move(message), std::move(fields));
}

}  // namespace hearth

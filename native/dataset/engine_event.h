// The engine's reports to the agent above it, and its few requests to the agent.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/sha256.h"

namespace hearth {

struct EngineEvent {
  enum class Kind : std::uint8_t { kLocations, kLog, kOriginChanged, kMountEnded };
  enum class Level : std::uint8_t { kDebug, kInfo, kWarn, kError };

  Kind kind = Kind::kLog;
  Level level = Level::kInfo;          // kLog
  Sha256Digest manifest{};             // kLocations, kOriginChanged
  std::string dataset;                 // kLocations, kOriginChanged: Dataset::id
  std::uint32_t source = 0;            // kLocations: whose, as DatasetSources
  std::vector<std::uint32_t> entries;  // kLocations; one of kOriginChanged
  // kLocations: no reader waits for these yet; answered as well where that costs no request each.
  std::vector<std::uint32_t> ahead;
  std::string target;                         // kMountEnded
  std::string message;                        // kLog, kOriginChanged, kMountEnded
  std::map<std::string, std::string> fields;  // kLog
  std::shared_ptr<void> slot = nullptr;  // among those that wait; given back with the last copy
};

// Any thread may call it; it must not block. After Engine::close has ended it is not called again.
using EventSink = std::function<void(EngineEvent)>;

// A line of the agent's log. Any thread.
inline void log(const EventSink& events, EngineEvent::Level level, std::string message,
                std::map<std::string, std::string> fields = {}) {
  events({.kind = EngineEvent::Kind::kLog,
          .level = level,
          .message = std::move(message),
          .fields = std::move(fields)});
}

}  // namespace hearth

// Reads of a directory origin's file. Private to this room. Reactor's thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "origin/directory_calls.h"
#include "origin/origin_client.h"
#include "reactor/synchronization.h"

namespace hearth {

// Fills `into` from `offset` of the file; errors and `filled` as OriginClient::fetch. A symbolic
// link below the location's directory is refused, as is everything that is not a regular file.
// `cancelled` set makes it end with kCancelled; kUnavailable when no byte came for as long as the
// limits of `calls` allow. The references outlive it.
[[nodiscard]] Task<Status> readDirectoryFile(Reactor& reactor, DirectoryCalls& calls,
                                             const Event& cancelled, OriginStatistics& statistics,
                                             Location location, OriginExpectation expectation,
                                             std::uint64_t offset,
                                             std::vector<std::span<std::byte>> into,
                                             std::function<void(std::size_t)> filled);

}  // namespace hearth

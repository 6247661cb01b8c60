// The hosts that a client has asked lately, and how many of its transfers are hedges. Private to
// this room. Reactor's thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "origin/origin_host.h"

namespace hearth {

class OriginHosts {
 public:
  // More are forgotten, those first that were not asked for the longest time.
  static constexpr std::size_t kMaxHosts = 64;

  // `reactor` and `options` must remain live while this object is used.
  OriginHosts(Reactor& reactor, const OriginOptions& options)
      : reactor_(reactor), options_(options), hedgePlaces_(hedgePlaces(options.connections)) {}

  // Connections beside `connections` that only hedges use: so none takes another owner's turn, and
  // stragglers are few by definition.
  [[nodiscard]] static std::size_t hedgePlaces(std::size_t connections) {
    return connections < 8 ? 1 : connections / 8;
  }

  // Of a URL, which checkUrl() has accepted. A forgotten host lives on for callers that have it.
  [[nodiscard]] std::shared_ptr<OriginHost> of(const std::string& url);

  [[nodiscard]] std::vector<OriginHostStatistics> statistics() const;

  // Spends `bytes` on a second request to `host` if the budget allows; on true the caller calls
  // endHedge() when the hedge has ended.
  [[nodiscard]] bool tryHedge(OriginHost& host, std::uint64_t bytes);
  void endHedge() { ++hedgePlaces_; }

 private:
  struct Known {
    std::shared_ptr<OriginHost> host;
    std::uint64_t asked = 0;  // when, in numbers of requests
  };

  Reactor& reactor_;
  const OriginOptions& options_;
  std::size_t hedgePlaces_;  // that are free
  std::uint64_t requests_ = 0;
  std::map<std::string, Known> known_;
};

}  // namespace hearth

#include "origin/origin_hosts.h"

#include <algorithm>

#include "origin/url.h"

namespace hearth {

std::shared_ptr<OriginHost> OriginHosts::of(const std::string& url) {
  const std::string site = siteOf(url);
  auto found = known_.find(site);
  if (found == known_.end()) {
    if (known_.size() >= kMaxHosts) {
      known_.erase(std::min_element(known_.begin(), known_.end(), [](const auto& a, const auto& b) {
        return a.second.asked < b.second.asked;
      }));
    }
    found = known_.emplace(site, Known{std::make_shared<OriginHost>(reactor_, options_)}).first;
  }
  found->second.asked = ++requests_;
  return found->second.host;
}

std::vector<OriginHostStatistics> OriginHosts::statistics() const {
  std::vector<OriginHostStatistics> all;
  for (const auto& [site, known] : known_) all.push_back({site, known.host->parallelism()});
  return all;
}

bool OriginHosts::tryHedge(OriginHost& host, std::uint64_t bytes) {
  if (hedgePlaces_ == 0 || !host.tryHedge(bytes, Clock::now())) return false;
  --hedgePlaces_;
  return true;
}

}  // namespace hearth

#include "warm/cluster_share.h"

#include <algorithm>
#include <cstring>

#include "directory/placement.h"

namespace hearth {

std::vector<std::uint32_t> shareOf(const std::string& self, const std::vector<std::string>& agents,
                                   const Manifest& manifest, std::vector<std::uint32_t> entries) {
  if (std::find(agents.begin(), agents.end(), self) == agents.end()) return entries;
  std::vector<std::uint64_t> hashes;
  for (const std::string& agent : agents) hashes.push_back(nodeHash(agent));
  const std::uint64_t own = nodeHash(self);
  std::erase_if(entries, [&](std::uint32_t entry) {
    std::uint64_t item = 0;
    std::memcpy(&item, manifest.entry(entry).key.bytes.data(), sizeof item);
    return hashes[rendezvousOrder(item, hashes, 1).front()] != own;
  });
  return entries;
}

}  // namespace hearth

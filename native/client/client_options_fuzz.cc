// Lists of addresses as programs give them: a list that is accepted names IP addresses and ports.
#include <arpa/inet.h>

#include <cstdlib>

#include "client/client_options.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string list(data, data + size);
  static_cast<void>(hearth::gd2fs::parseNics(list));
  const auto agents = hearth::gd2fs::parseAgents(list);
  if (!agents.ok()) return 0;
  if (agents->empty()) std::abort();
  for (const hearth::PeerAddress& agent : *agents) {
    in6_addr binary{};
    const bool isAddress = inet_pton(AF_INET, agent.host.c_str(), &binary) == 1 ||
                           inet_pton(AF_INET6, agent.host.c_str(), &binary) == 1;
    if (!isAddress || agent.port == 0) std::abort();
  }
  return 0;
}

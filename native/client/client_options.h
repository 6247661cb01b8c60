// Options of a connection: addresses, counts, times. Any thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "client/agent_list.h"
#include "client/include/xfer/gd2fs.h"
#include "transport/peer_transport.h"

namespace hearth::gd2fs {

struct ClientOptions {
  std::string cluster;
  std::vector<PeerAddress> agents;
  // Reads them again where they came from a file; empty where they did not.
  AgentList::Find findAgents = {};
  std::size_t ioThreads = 1;
  std::uint32_t streams = 1;
  std::chrono::milliseconds timeout{60'000};
  std::function<Result<CapabilityToken>()> token;
  std::string agentSocket;  // of the agent of this node, which may not be there; empty: none
  std::string root;  // in front of paths that name neither a dataset nor a volume; may be empty
  std::vector<std::string> nics;  // addresses that connections come from in turn; empty: any
  std::string warning;            // of what is not as the program has asked for it; may be empty
};

// True for a path that names its dataset or volume by itself.
[[nodiscard]] bool namesItsRoot(std::string_view path);
// "gd2fs://10.0.0.1:7527,gd2fs://[fd00::1]" without a port: 7527. kInvalidArgument names what is
// wrong.
[[nodiscard]] Result<std::vector<PeerAddress>> parseAgents(std::string_view list);
struct ClientNics {
  std::vector<std::string> addresses;  // without loopback, which leads to no other host
  bool rdma = false;                   // one is to be used by RDMA
};
// "tcp://10.0.0.9,rdma://10.0.0.9": IP addresses of this host.
[[nodiscard]] Result<ClientNics> parseNics(std::string_view list);
// Null where the program left one out. Addresses and cluster come from the environment then, or
// from the files of a pod's volume, and so do the token and the agent's socket.
[[nodiscard]] Result<ClientOptions> clientOptions(const xfer_gd2fs_options& given);
// The token as the environment names it. Reads a small file: blocks as long as its disk does.
[[nodiscard]] Result<CapabilityToken> tokenOfEnvironment();

}  // namespace hearth::gd2fs

// Options of a connection: addresses, counts, times. Pure: any thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "client/include/xfer/gd2fs.h"
#include "transport/peer_transport.h"

namespace hearth::gd2fs {

struct ClientOptions {
  std::string cluster;
  std::vector<PeerAddress> agents;
  std::size_t ioThreads = 1;
  std::uint32_t streams = 1;
  std::chrono::milliseconds timeout{60'000};
  std::function<Result<CapabilityToken>()> token;
  std::string agentSocket;  // of the agent of this node, which may not be there; empty: none
};

// "gd2fs://10.0.0.1:7527,gd2fs://[fd00::1]" without a port: 7527. kInvalidArgument names what is
// wrong.
[[nodiscard]] Result<std::vector<PeerAddress>> parseAgents(std::string_view list);
// "tcp://10.0.0.9,rdma://10.0.0.9": IP addresses of this host. kUnsupported when none is of TCP.
[[nodiscard]] Status checkNics(std::string_view list);
// Null where the program left one out. Addresses and cluster come from the environment then, or
// from the files of a pod's volume, and so do the token and the agent's socket.
[[nodiscard]] Result<ClientOptions> clientOptions(const xfer_gd2fs_options& given);
// The token as the environment names it. Reads a small file: blocks as long as its disk does.
[[nodiscard]] Result<CapabilityToken> tokenOfEnvironment();

}  // namespace hearth::gd2fs

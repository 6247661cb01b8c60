#include "client/client_options.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>

#include "base/owned_fd.h"
#include "wire/client_message.h"

namespace hearth::gd2fs {
namespace {

constexpr std::uint16_t kPort = 7527;
constexpr std::size_t kMostThreads = 64, kMostStreams = 64;
constexpr std::size_t kLongestToken = 16'384;
constexpr std::size_t kLongestSetting = 65'536;
// Where pods mount their access to a cluster.
constexpr const char* kAccessFolder = "/var/run/hearth";

Error invalid(std::string message) { return {ErrorCode::kInvalidArgument, std::move(message)}; }

// Calls `take(part)` for each part of a list; ends at the first error.
template <class Take>
Status forEachOf(std::string_view list, Take take) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    const Status taken = take(list.substr(0, comma));
    if (!taken.ok()) return taken;
    list.remove_prefix(std::min(list.size(), comma + 1));
  }
  return {};
}

bool isAddress(const std::string& host) {
  in6_addr ignored;
  return inet_pton(AF_INET, host.c_str(), &ignored) == 1 ||
         inet_pton(AF_INET6, host.c_str(), &ignored) == 1;
}

bool isLoopback(const std::string& host) {
  in_addr four{};
  in6_addr six{};
  if (inet_pton(AF_INET, host.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  return inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

std::optional<std::uint16_t> portOf(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

// Of "10.0.0.1:7527", "[fd00::1]:7527", with or without the port.
Result<PeerAddress> hostAndPort(std::string_view text) {
  const std::string whole(text);
  PeerAddress address{.host = {}, .port = kPort};
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return invalid(whole + " has no closing bracket");
    address.host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else {
    const std::size_t colon = std::min(text.find(':'), text.size());
    address.host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (!isAddress(address.host)) return invalid(whole + " is no IP address");
  if (port.empty()) return address;
  const std::optional<std::uint16_t> number =
      port.starts_with(':') ? portOf(port.substr(1)) : std::nullopt;
  if (!number) return invalid(whole + " has no valid port");
  address.port = *number;
  return address;
}

// Connections can come from there.
Status checkLocal(const std::string& host) {
  const bool isSix = host.find(':') != std::string::npos;
  sockaddr_in four{};
  sockaddr_in6 six{};
  four.sin_family = AF_INET;
  six.sin6_family = AF_INET6;
  inet_pton(isSix ? AF_INET6 : AF_INET, host.c_str(),
            isSix ? static_cast<void*>(&six.sin6_addr) : &four.sin_addr);
  const OwnedFd socket(::socket(isSix ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return errnoError(errno, "socket");
  const int bound = isSix ? bind(socket.get(), reinterpret_cast<sockaddr*>(&six), sizeof six)
                          : bind(socket.get(), reinterpret_cast<sockaddr*>(&four), sizeof four);
  if (bound == 0) return {};
  return invalid("dp_address has " + host + ", which is no address of this host (" +
                 std::strerror(errno) + ")");
}

// Empty where it is not set.
std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string accessFile(const char* name) {
  const std::string folder = environment("HEARTH_CLIENT_ACCESS");
  return (folder.empty() ? kAccessFolder : folder) + "/" + name;
}

// At most so many bytes of it; empty where there is none.
std::string textOfFile(const std::string& path, std::size_t most) {
  std::ifstream file(path, std::ios::binary);
  std::string text(most, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

bool isMissing(const char* given) { return given == nullptr || *given == '\0'; }

std::string withoutLineEnd(std::string value) {
  while (!value.empty() && value.back() == '\n') value.pop_back();
  return value;
}

// As the program gives it, else the environment, else the pod's volume, without the line's end.
std::string setting(const char* given, const char* variable, const char* file) {
  std::string value = isMissing(given) ? environment(variable) : given;
  if (value.empty()) value = textOfFile(accessFile(file), kLongestSetting);
  return withoutLineEnd(std::move(value));
}

// None where the file is missing or has other text.
std::vector<PeerAddress> agentsOfFile(const std::string& path) {
  Result<std::vector<PeerAddress>> agents =
      parseAgents(withoutLineEnd(textOfFile(path, kLongestSetting)));
  return agents.ok() ? std::move(*agents) : std::vector<PeerAddress>();
}

Result<CapabilityToken> tokenOfFile(const std::string& path) {
  const std::string text = textOfFile(path, kLongestToken);
  if (text.empty())
    return Error{ErrorCode::kUnauthenticated,
                 "there is no token in " + path + "; name its file by HEARTH_TOKEN_FILE"};
  return parseCapabilityToken(text);
}

}  // namespace

bool namesItsRoot(std::string_view path) {
  return liesIn(kDatasetRoot, path) || liesIn(kVolumeRoot, path);
}

Result<std::vector<PeerAddress>> parseAgents(std::string_view list) {
  constexpr std::string_view kScheme = "gd2fs://";
  std::vector<PeerAddress> agents;
  const Status parsed = forEachOf(list, [&](std::string_view part) -> Status {
    if (!part.starts_with(kScheme)) return invalid(std::string(part) + " is no gd2fs:// address");
    const Result<PeerAddress> address = hostAndPort(part.substr(kScheme.size()));
    if (!address.ok()) return address.error();
    if (std::ranges::find(agents, *address) == agents.end()) agents.push_back(*address);
    return {};
  });
  if (!parsed.ok()) return parsed.error();
  if (agents.empty()) return invalid("no control address is given");
  return agents;
}

Result<ClientNics> parseNics(std::string_view list) {
  ClientNics nics;
  const Status parsed = forEachOf(list, [&](std::string_view part) -> Status {
    const bool ofRdma = part.starts_with("rdma://");
    if (!ofRdma && !part.starts_with("tcp://"))
      return invalid(std::string(part) + " is neither a tcp:// nor an rdma:// address");
    nics.rdma = nics.rdma || ofRdma;
    Result<PeerAddress> address = hostAndPort(part.substr(part.find("//") + 2));
    if (!address.ok()) return address.error();
    if (!isLoopback(address->host)) nics.addresses.push_back(std::move(address->host));
    return {};
  });
  if (!parsed.ok()) return parsed.error();
  return nics;
}

Result<ClientOptions> clientOptions(const xfer_gd2fs_options& given) {
  Result<std::vector<PeerAddress>> agents =
      parseAgents(setting(given.cp_address, "HEARTH_CPADDR", "addresses"));
  if (!agents.ok()) return agents.error();
  Result<ClientNics> nics = parseNics(given.dp_address != nullptr ? given.dp_address : "");
  if (!nics.ok()) return nics.error();
  ClientOptions options;
  options.agents = std::move(*agents);
  if (isMissing(given.cp_address) && environment("HEARTH_CPADDR").empty())
    options.findAgents = [file = accessFile("addresses")] { return agentsOfFile(file); };
  options.nics = std::move(nics->addresses);
  for (const std::string& nic : options.nics)
    if (Status local = checkLocal(nic); !local.ok()) return local.error();
  if (nics->rdma)
    options.warning = "this library has no RDMA; bytes come over TCP, also by rdma:// addresses";
  options.root = setting(nullptr, "HEARTH_ROOT", "root");
  while (options.root.ends_with('/')) options.root.pop_back();
  if (!options.root.empty() && !namesItsRoot(options.root))
    return invalid("HEARTH_ROOT, " + options.root + ", does not begin with /dataset/ or /volume/");
  options.cluster = setting(given.cluster_id, "HEARTH_CLUSTER", "cluster");
  if (options.cluster.empty() || options.cluster.size() > kMaxNameBytes)
    return invalid("the cluster's name is missing or too long");
  const std::size_t processors = std::max(1u, std::thread::hardware_concurrency());
  options.ioThreads =
      given.iothread_count != 0 ? given.iothread_count : std::min<std::size_t>(processors, 4);
  options.streams = std::max(given.conn_stream_count, 1u);
  if (options.ioThreads > kMostThreads || options.streams > kMostStreams)
    return invalid("more than 64 threads or streams");
  if (given.timeout != 0) options.timeout = std::chrono::milliseconds(given.timeout);
  options.token = tokenOfEnvironment;
  const char* const socket = std::getenv("HEARTH_CLIENTS_SOCKET");
  options.agentSocket = socket != nullptr ? socket : accessFile("clients.sock");
  return options;
}

Result<CapabilityToken> tokenOfEnvironment() {
  const char* const file = std::getenv("HEARTH_TOKEN_FILE");
  if (file != nullptr && *file != '\0') return tokenOfFile(file);
  const char* const token = std::getenv("HEARTH_TOKEN");
  if (token != nullptr && *token != '\0') return parseCapabilityToken(token);
  return tokenOfFile(accessFile("token"));
}

}  // namespace hearth::gd2fs

// hearth-holder: owns the FUSE mounts of a node and outlives the agents that serve them.
#include <signal.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "holder/holder_server.h"

namespace {

constexpr char kUsage[] =
    "usage: hearth-holder [--socket PATH] [--agent-absence SECONDS] [--volumes DIRECTORY]\n"
    "\n"
    "Makes FUSE mounts for Hearth agents, keeps their descriptors and gives them to the agent "
    "that\n"
    "connects, so that mounts survive an agent's end. SIGTERM and SIGINT detach all mounts.\n"
    "\n"
    "  --socket PATH            Unix socket (default /run/hearth/holder.sock)\n"
    "  --agent-absence SECONDS  requests of a mount without an agent fail after this (default "
    "900)\n"
    "  --volumes DIRECTORY      the agent's volumes.directory: what agents have left mounted "
    "below\n"
    "                           its mounts/ is detached at the end\n";

hearth::HolderServer* running = nullptr;

void onSignal(int) { running->stop(); }

void log(const std::string& line) { std::fprintf(stderr, "hearth-holder: %s\n", line.c_str()); }

int usageError(const std::string& why) {
  log(why);
  std::fputs(kUsage, stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  hearth::HolderOptions options;
  options.socketPath = "/run/hearth/holder.sock";
  options.log = log;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    if (flag != "--socket" && flag != "--agent-absence" && flag != "--volumes") {
      return usageError("unknown argument '" + std::string(flag) + "'");
    }
    if (++i == argc) return usageError(std::string(flag) + " needs a value");
    const std::string_view value = argv[i];
    if (flag == "--volumes") {
      if (value.size() < 2 || value.front() != '/' || value.back() == '/') {
        return usageError("--volumes must be an absolute path without a slash at its end");
      }
      options.volumes = value;
      continue;
    }
    if (flag == "--socket") {
      options.socketPath = value;
      continue;
    }
    unsigned seconds = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), seconds);
    if (parsed.ec != std::errc() || parsed.ptr != value.data() + value.size() || seconds == 0 ||
        seconds > 365U * 86400) {
      return usageError("--agent-absence must be a whole number of seconds, from 1 to a year");
    }
    options.agentAbsence = std::chrono::seconds(seconds);
  }

  const std::string path = options.socketPath;
  auto server = hearth::HolderServer::create(std::move(options));
  if (!server) {
    log(server.error().message);
    return 1;
  }
  running = server->get();
  struct sigaction action {};
  action.sa_handler = onSignal;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  log("listening at " + path);
  (*server)->run();
  return 0;
}

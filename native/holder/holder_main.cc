// hearth-holder: owns the FUSE mounts of a node and outlives the agents that serve them.
#include <signal.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "holder/holder_client.h"
#include "holder/holder_server.h"

namespace {

constexpr char kUsage[] =
    "usage: hearth-holder [--socket PATH] [--agent-absence SECONDS] [--volumes DIRECTORY]\n"
    "                     [--arena-bytes BYTES] [--take-over]\n"
    "       hearth-holder --check [--socket PATH]\n"
    "\n"
    "Makes FUSE mounts for Hearth agents, keeps their descriptors and gives them to the agent "
    "that\n"
    "connects, so that mounts survive an agent's end. SIGTERM and SIGINT detach the mounts "
    "that\n"
    "no agent serves; an agent that keeps running passes its own to the next holder.\n"
    "\n"
    "  --socket PATH            Unix socket (default /run/hearth/holder.sock)\n"
    "  --agent-absence SECONDS  requests of a mount without an agent fail after this (default "
    "900)\n"
    "  --volumes DIRECTORY      the agent's volumes.directory: what agents have left mounted "
    "below\n"
    "                           its mounts/ is detached at the end\n"
    "  --arena-bytes BYTES      memory of agents that is touched here, and charged to this "
    "process\n"
    "                           (default 0: agents touch it themselves)\n"
    "  --take-over              take everything from the holder at the socket, which ends\n"
    "  --check                  ask the holder at the socket whether it answers, and end\n";

// Agents that end together with the holder do so within this.
constexpr auto kEndTimeout = std::chrono::seconds(2);

hearth::HolderServer* running = nullptr;

void onSignal(int) { running->stop(); }

void log(const std::string& line) { std::fprintf(stderr, "hearth-holder: %s\n", line.c_str()); }

int usageError(const std::string& why) {
  log(why);
  std::fputs(kUsage, stderr);
  return 2;
}

struct Arguments {
  hearth::HolderOptions options;
  bool check = false;
  // Set when the program ends here, with this exit code.
  std::optional<int> ends;
};

std::optional<std::uint64_t> wholeNumber(std::string_view text, std::uint64_t most) {
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool good =
      parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && number <= most;
  return good ? std::optional(number) : std::nullopt;
}

// The fault of the value; empty when it is valid.
std::string setValue(hearth::HolderOptions& options, std::string_view flag,
                     std::string_view value) {
  if (flag == "--socket") {
    options.socketPath = value;
  } else if (flag == "--volumes") {
    if (value.size() < 2 || value.front() != '/' || value.back() == '/')
      return "--volumes must be an absolute path without a slash at its end";
    options.volumes = value;
  } else if (flag == "--arena-bytes") {
    const auto bytes = wholeNumber(value, 1ULL << 60);
    if (!bytes) return "--arena-bytes must be a whole number of bytes";
    options.touchBytes = *bytes;
  } else {
    const auto seconds = wholeNumber(value, 365ULL * 86400);
    if (seconds.value_or(0) == 0)
      return "--agent-absence must be a whole number of seconds, from 1 to a year";
    options.agentAbsence = std::chrono::seconds(*seconds);
  }
  return {};
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  arguments.options.socketPath = "/run/hearth/holder.sock";
  arguments.options.log = log;
  arguments.options.release = HEARTH_RELEASE;
  arguments.options.endTimeout = kEndTimeout;
  const auto refuse = [&arguments](const std::string& why) {
    arguments.ends = usageError(why);
    return arguments;
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--help") {
      std::fputs(kUsage, stdout);
      arguments.ends = 0;
      return arguments;
    }
    if (flag == "--check") {
      arguments.check = true;
      continue;
    }
    if (flag == "--take-over") {
      arguments.options.takeOver = true;
      continue;
    }
    const bool known = flag == "--socket" || flag == "--agent-absence" || flag == "--volumes" ||
                       flag == "--arena-bytes";
    if (!known) return refuse("unknown argument '" + std::string(flag) + "'");
    if (++i == argc) return refuse(std::string(flag) + " needs a value");
    const std::string wrong = setValue(arguments.options, flag, argv[i]);
    if (!wrong.empty()) return refuse(wrong);
  }
  return arguments;
}

// True when the holder answers; a holder answers at once, whatever its mounts wait for.
int check(const std::string& socketPath) {
  const auto client = hearth::HolderClient::connect(socketPath, std::chrono::seconds(3));
  if (!client) {
    log(client.error().message);
    return 1;
  }
  const auto mounts = (*client)->list();
  if (!mounts) log(mounts.error().message);
  return mounts ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments = parse(argc, argv);
  if (arguments.ends) return *arguments.ends;
  const std::string path = arguments.options.socketPath;
  if (arguments.check) return check(path);
  auto server = hearth::HolderServer::create(std::move(arguments.options));
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

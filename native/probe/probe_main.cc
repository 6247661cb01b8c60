// hearth-probe: one JSON object {name, status, detail, advice} a line for every probe of this
// machine.
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>

#include "probe/probe.h"

namespace {

constexpr int kUsageExit = 2;
constexpr int kMaxDeadlineSeconds = 600;

int usage(const std::string& problem) {
  std::fprintf(stderr,
               "hearth-probe: %s\n"
               "usage: hearth-probe [--deadline SECONDS] [--cache-directory DIR]... "
               "[--rdma-peer ADDRESS]...\n",
               problem.c_str());
  return kUsageExit;
}

}  // namespace

int main(int count, char** arguments) {
  hearth::ProbeOptions options;
  for (int index = 1; index < count; ++index) {
    const std::string option = arguments[index];
    if (option != "--cache-directory" && option != "--deadline" && option != "--rdma-peer") {
      return usage("unknown option " + option);
    }
    if (index + 1 == count) return usage(option + " needs a value");
    const char* value = arguments[++index];
    if (option != "--deadline") {
      const bool isPeer = option == "--rdma-peer";
      (isPeer ? options.rdmaPeers : options.cacheDirectories).emplace_back(value);
      continue;
    }
    int seconds = 0;
    const char* end = value + std::strlen(value);
    const auto [rest, error] = std::from_chars(value, end, seconds);
    if (error != std::errc() || rest != end || seconds < 1 || seconds > kMaxDeadlineSeconds) {
      return usage("--deadline takes 1 to 600 seconds");
    }
    options.deadline = std::chrono::seconds(seconds);
  }
  for (const hearth::Probe& probe : hearth::runProbes(options)) {
    std::puts(hearth::probeJson(probe).c_str());
  }
  return std::fflush(stdout) == 0 ? 0 : 1;
}

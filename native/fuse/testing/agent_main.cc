// An agent for tests that kill it: attaches to a holder, serves its mount (or makes it) and prints
// "serving EPOCH". Arguments: socket, mount point, folder of the bytes. "whole" is complete; of the
// others each read takes 20 ms.
#include <cstdio>
#include <string>

#include "fuse/fuse_session.h"
#include "fuse/testing/takeover_rows.h"
#include "holder/holder_client.h"

using namespace hearth;
using namespace hearth::fuse_testing;

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string target = argv[2];
  auto source = std::make_shared<TestSource>(manifestOf(takeoverRows()), argv[3]);
  source->setComplete("whole", true);
  source->setDelay(std::chrono::milliseconds(20));
  auto client = HolderClient::connect(argv[1]);
  if (!client) return std::fprintf(stderr, "%s\n", client.error().message.c_str()), 1;
  auto held = (*client)->attach("agent");
  if (!held) return std::fprintf(stderr, "%s\n", held.error().message.c_str()), 1;
  if (held->empty()) {
    auto mounted = (*client)->mount({.target = target, .source = "takeover", .blob = "digest"});
    if (!mounted) return std::fprintf(stderr, "%s\n", mounted.error().message.c_str()), 1;
    held->push_back(std::move(*mounted));
  }
  HeldMount& mount = held->front();
  FuseSessionOptions options;
  options.epoch = mount.record.epoch;
  options.state = mount.record.state;
  options.saveState = [&](const std::string& state) { return (*client)->saveState(target, state); };
  auto session =
      FuseSession::start(std::move(mount.device), mount.shared, source, std::move(options));
  if (!session) return std::fprintf(stderr, "%s\n", session.error().message.c_str()), 1;
  std::printf("serving %u %s\n", mount.record.epoch, mount.record.blob.c_str());
  std::fflush(stdout);
  std::getchar();  // until the test closes our input, or kills us
  (*session)->close(std::chrono::seconds(1), true);
  return 0;
}

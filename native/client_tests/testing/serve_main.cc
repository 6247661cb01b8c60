// hearth_gd2fs_serve [FILE]: an agent with a dataset for tests of programs that are not C++. Prints
// its address, a token, and the file that it serves as /dataset/test/file, which is a copy of FILE;
// beside it lies a folder of two files and a folder. Ends with its standard input.
//
// hearth_gd2fs_serve --volume: prints the addresses of two agents that share the volume /volume/kv,
// and a token that lets write it.
#include <cstdio>
#include <filesystem>
#include <string>

#include "client_tests/testing_volume.h"

namespace {

using namespace hearth::testing_client;  // NOLINT(google-build-using-namespace)

// Until the standard input ends.
void waitForEnd() {
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
}

void serveVolume() {
  VolumeCluster cluster;
  const auto token = hearth::signCapability(volumeCapability(), kSecret);
  std::printf("%s\n%s\n%s\n", addressOf(cluster.b).c_str(), addressOf(cluster.c).c_str(),
              hearth::textOf(*token).c_str());
  waitForEnd();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--volume") {
    serveVolume();
    return 0;
  }
  Origin origin;
  origin.add("file", argc > 1 ? 0 : 9 * 1024 * 1024 + 321);
  if (argc > 1)
    std::filesystem::copy_file(argv[1], origin.folder() + "/file",
                               std::filesystem::copy_options::overwrite_existing);
  for (const char* const name : {"a", "b", "inner/c"}) origin.add(std::string("folder/") + name, 5);
  Agent agent("agent");
  agent.engine().nameDatasets({{"test", agent.add(origin)}});
  const auto token = hearth::signCapability(capabilityOf({"test"}), kSecret);
  std::printf("%s\n%s\n%s/file\n", addressOf(agent).c_str(), hearth::textOf(*token).c_str(),
              origin.folder().c_str());
  waitForEnd();
  return 0;
}

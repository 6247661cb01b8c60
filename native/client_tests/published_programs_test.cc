// What programs that were written for GD2FS rely on.
#include <cerrno>
#include <cstdio>

#include "client_tests/fio_calls.h"
#include "client_tests/testing_client.h"

namespace hearth::testing_client {
namespace {

struct PublishedProgramsTest : ClientTest {
  PublishedProgramsTest() {
    origin.add("testfile_16g", kChunkBytes + 7);
    agent.engine().nameDatasets({{"llm", agent.add(origin)}});
    useToken(capabilityOf({"llm"}));
    setenv("HEARTH_ROOT", "/dataset/llm/", 1);
    address = addressOf(agent);
  }
  ~PublishedProgramsTest() override { unsetenv("HEARTH_ROOT"); }
  int fio(const char* nics, const char* path, bool write = false) {
    memory.assign(kChunkBytes, '\0');
    return hearth_fio_job(address.c_str(), nics, "test", path, write ? 1 : 0, memory.data(),
                          memory.size());
  }

  Origin origin;
  Agent agent{"agent"};
  std::string address;
};

TEST_F(PublishedProgramsTest, FioReadsPlainPathsBelowTheRoot) {
  for (const char* const nics :
       {"tcp://127.0.0.1", "rdma://127.0.0.1", "rdma://127.0.0.1,tcp://[::1]",
        "rdma://127.0.0.1,rdma://127.0.0.2"}) {
    EXPECT_EQ(fio(nics, "/testfile_16g"), 0) << nics;
    EXPECT_TRUE(memory == origin.bytesOf("testfile_16g").substr(0, kChunkBytes)) << nics;
  }
  EXPECT_EQ(fio("tcp://127.0.0.1", "/none"), -ENOENT);
  EXPECT_EQ(fio("tcp://127.0.0.1", "/dataset/llm/testfile_16g"), 0);
  EXPECT_EQ(fio("tcp://127.0.0.1", "/dataset/none/testfile_16g"), -EACCES);
}

TEST_F(PublishedProgramsTest, WritesAreRefusedAtOnce) {
  EXPECT_EQ(fio("tcp://127.0.0.1", "/testfile_16g", true), -EROFS) << "after EEXIST, which is fine";
  EXPECT_EQ(fio("tcp://127.0.0.1", "/new", true), -EROFS);
}

TEST_F(PublishedProgramsTest, WithoutARootPlainPathsAreRefused) {
  unsetenv("HEARTH_ROOT");
  EXPECT_EQ(fio("tcp://127.0.0.1", "/testfile_16g"), -EINVAL);
  setenv("HEARTH_ROOT", "elsewhere", 1);
  EXPECT_EQ(fio("tcp://127.0.0.1", "/testfile_16g"), -EINVAL);
}

TEST_F(PublishedProgramsTest, ConnectionsComeFromTheirNics) {
  // TEST-NET-1: no host has it.
  EXPECT_EQ(fio("tcp://192.0.2.1", "/testfile_16g"), -EINVAL);
}

}  // namespace
}  // namespace hearth::testing_client

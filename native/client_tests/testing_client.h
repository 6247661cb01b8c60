// For tests: a program with libgd2fs, which reads from engines in the same process.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "client/include/xfer/gd2fs.h"
#include "engine/testing_cluster.h"
#include "wire/capability.h"

namespace hearth::testing_client {

using namespace testing_cluster;  // NOLINT(google-build-using-namespace)

// As Agent::start() has it.
inline const std::vector<std::byte> kSecret(32, std::byte{7});

inline std::uint64_t msFromNow(std::chrono::milliseconds time) {
  const auto until = std::chrono::system_clock::now().time_since_epoch() + time;
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(until).count());
}

inline Capability capabilityOf(std::vector<std::string> datasets) {
  return {.cluster = "test",
          .node = "",
          .expiresAtMs = msFromNow(std::chrono::hours(1)),
          .rights = static_cast<std::uint32_t>(CapabilityRight::kRead),
          .datasets = std::move(datasets)};
}

// Options of clients that connect from now on.
inline void useToken(const Capability& capability, const std::vector<std::byte>& secret = kSecret) {
  const Result<CapabilityToken> token = signCapability(capability, secret);
  ASSERT_TRUE(token.ok());
  setenv("HEARTH_TOKEN", textOf(*token).c_str(), 1);
}

inline std::string addressOf(Agent& agent) {
  const PeerAddress address = agent.engine().addresses().front();
  return "gd2fs://" + address.host + ":" + std::to_string(address.port);
}

// Awaited on the agent: its connections know of it then.
inline Task<bool> revoke(Engine& engine, RevokedTokens tokens) {
  co_await engine.setRevokedTokens(std::move(tokens));
  co_return true;
}

struct ClientTest : testing::Test {
  ~ClientTest() override {
    xfer_gd2fs_close(ctx);
    unsetenv("HEARTH_TOKEN");
  }
  [[nodiscard]] xfer_gd2fs_options options(const std::string& addresses) {
    controlAddresses = addresses;
    xfer_gd2fs_options given{};
    given.cp_address = controlAddresses.c_str();
    given.dp_address = "tcp://127.0.0.1";
    given.cluster_id = "test";
    given.iothread_count = 2;
    return given;
  }
  void open(const std::string& addresses) {
    const xfer_gd2fs_options given = options(addresses);
    ctx = xfer_gd2fs_connect(&given);
    ASSERT_NE(ctx, nullptr) << std::strerror(errno);
  }
  xfer_gd2fs_completion next() {
    xfer_gd2fs_completion done{};
    EXPECT_EQ(xfer_gd2fs_wait(ctx, &done, 1, -1), 1);
    return done;
  }
  // Into `memory`, which grows to `size`.
  xfer_gd2fs_completion read(const std::string& path, std::uint64_t offset, std::size_t size) {
    memory.assign(size, '\0');
    xfer_gd2fs_iomem* const iomem = xfer_gd2fs_reg_iomem(ctx, memory.data(), size, nullptr);
    EXPECT_NE(iomem, nullptr);
    const xfer_gd2fs_sge sge{memory.data(), size, iomem};
    EXPECT_EQ(xfer_gd2fs_preadv(ctx, this, path.c_str(), offset, &sge, 1, 0), 0);
    const xfer_gd2fs_completion done = next();
    EXPECT_EQ(done.id, this);
    EXPECT_EQ(xfer_gd2fs_dereg_iomem(ctx, iomem), 0);
    return done;
  }
  unsigned codeOf(const std::string& path, std::uint64_t offset = 0, std::size_t size = 1) {
    return XFER_GD2FS_STATUS_CODE(read(path, offset, size).status);
  }

  std::string controlAddresses;
  xfer_gd2fs_ctx* ctx = nullptr;
  std::string memory;
};

}  // namespace hearth::testing_client

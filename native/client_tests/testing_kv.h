// For tests: key spaces of the volume of a VolumeCluster, and calls that wait for their batch.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/include/xfer/hearth_kv.h"
#include "client_tests/testing_volume.h"

namespace hearth::testing_client {

// One context with one key space, and memory for one batch.
class KvClient {
 public:
  struct Value {
    std::string key;
    std::vector<char> bytes;  // to put, or room to get into
    std::uint64_t size = 0;   // value_bytes
    int status = -1;
  };

  explicit KvClient(const std::string& agents, std::string fingerprint = "weights-1",
                    std::string salt = "", unsigned timeoutMs = 0)
      : agents_(agents) {
    xfer_gd2fs_options options{};
    options.cp_address = agents_.c_str();
    options.dp_address = "tcp://127.0.0.1";
    options.cluster_id = "test";
    options.iothread_count = 2;
    options.timeout = timeoutMs;
    ctx_ = xfer_gd2fs_connect(&options);
    EXPECT_NE(ctx_, nullptr) << std::strerror(errno);
    hearth_kv_space space{};
    space.size = sizeof space;
    space.volume = "kv";
    space.fingerprint = fingerprint.data();
    space.fingerprint_bytes = fingerprint.size();
    space.salt = salt.data();
    space.salt_bytes = salt.size();
    kv_ = hearth_kv_open(ctx_, &space);
    EXPECT_NE(kv_, nullptr) << std::strerror(errno);
  }
  ~KvClient() {
    closeSpace();
    xfer_gd2fs_close(ctx_);
  }
  KvClient(const KvClient&) = delete;
  KvClient& operator=(const KvClient&) = delete;

  [[nodiscard]] hearth_kv* kv() const { return kv_; }
  [[nodiscard]] xfer_gd2fs_ctx* context() const { return ctx_; }
  void closeSpace() { hearth_kv_close(std::exchange(kv_, nullptr)); }

  using Call = int (*)(hearth_kv*, const hearth_kv_batch*);
  // Begins a batch of the values, which stay as they are until finish(). 0 or a negative errno.
  int submit(Call call, std::vector<Value>& values, unsigned timeoutMs = 0) {
    const bool moves = call == hearth_kv_put || call == hearth_kv_get;
    items_.assign(values.size(), {});
    sges_.assign(values.size(), {});
    for (std::size_t i = 0; i < values.size(); ++i) {
      Value& value = values[i];
      hearth_kv_item& item = items_[i];
      item.size = sizeof item;
      item.key = value.key.data();
      item.key_bytes = value.key.size();
      if (!moves) continue;
      sges_[i] = {value.bytes.data(), value.bytes.size(),
                  xfer_gd2fs_reg_iomem(ctx_, value.bytes.data(), value.bytes.size(), nullptr)};
      item.sges = &sges_[i];
      item.sge_count = 1;
    }
    hearth_kv_batch batch{};
    batch.size = sizeof batch;
    batch.id = &values;
    batch.items = items_.data();
    batch.count = items_.size();
    batch.timeout_ms = timeoutMs;
    return call(kv_, &batch);
  }
  // The completion of a batch that was begun; its outcome goes into the values.
  hearth_kv_completion finish(std::vector<Value>& values) {
    hearth_kv_completion done{};
    done.size = sizeof done;
    EXPECT_EQ(hearth_kv_wait(kv_, &done, 1, -1), 1);
    EXPECT_EQ(done.id, &values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i].size = items_[i].value_bytes;
      values[i].status = items_[i].status;
    }
    return done;
  }
  hearth_kv_completion run(Call call, std::vector<Value>& values) {
    EXPECT_EQ(submit(call, values), 0);
    return finish(values);
  }
  int put(const std::string& key, std::vector<char> bytes) {
    std::vector<Value> values{{key, std::move(bytes)}};
    (void)run(hearth_kv_put, values);
    return values[0].status;
  }
  // The value, or nothing; `room` bytes of memory.
  std::vector<char> get(const std::string& key, std::size_t room, int expected = 0) {
    std::vector<Value> values{{key, std::vector<char>(room)}};
    (void)run(hearth_kv_get, values);
    EXPECT_EQ(values[0].status, expected);
    if (values[0].status != 0) return {};
    values[0].bytes.resize(values[0].size);
    return values[0].bytes;
  }
  // The completion's value.
  std::uint64_t ask(Call call, const std::vector<std::string>& keys) {
    std::vector<Value> values;
    for (const std::string& key : keys) values.push_back({key, {}});
    const hearth_kv_completion done = run(call, values);
    EXPECT_EQ(done.status, 0);
    return done.value;
  }

 private:
  const std::string agents_;
  xfer_gd2fs_ctx* ctx_ = nullptr;
  hearth_kv* kv_ = nullptr;
  std::vector<hearth_kv_item> items_;
  std::vector<xfer_gd2fs_sge> sges_;
};

}  // namespace hearth::testing_client

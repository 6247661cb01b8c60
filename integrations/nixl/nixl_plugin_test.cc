// The plug-in as libnixl uses it, by dlopen(3) and its table of virtual functions, against three
// agents in this process.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <numeric>
#include <thread>

#include "base/testing/eventually.h"
#include "client_tests/testing_volume.h"
#include "nixl_abi.h"

namespace hearth::nixl {
namespace {

using testing_client::addressOf;
using testing_client::Agent;
using testing_client::VolumeCluster;

constexpr std::size_t kObjectBytes = 300'000;

Plugin& plugin() {
  static void* const library = dlopen(HEARTH_NIXL_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  static auto* const init = reinterpret_cast<Plugin* (*)()>(dlsym(library, "nixl_plugin_init"));
  return *init();
}

// An agent of NIXL with the back end alone.
class Nixl {
 public:
  explicit Nixl(Parameters parameters)
      : parameters_(std::move(parameters)), engine_(plugin().create(&init_), plugin().destroy) {}
  Nixl(Agent& agent, const std::string& fingerprint = "weights-1")
      : Nixl(Parameters{{"volume", "kv"},
                        {"fingerprint", fingerprint},
                        {"addresses", addressOf(agent)},
                        {"cluster", "test"}}) {}
  ~Nixl() {
    for (Metadata* const each : registered_) engine_->deregisterMemory(each);
  }

  [[nodiscard]] BackendEngine& engine() { return *engine_; }

  Metadata* registered(MemoryKind kind, BlobDescriptor blob) {
    Metadata* metadata = nullptr;
    EXPECT_EQ(engine_->registerMemory(blob, kind, metadata), Status::kSuccess);
    registered_.push_back(metadata);
    return metadata;
  }
  Metadata* object(const std::string& key) {
    return registered(MemoryKind::kObject, {0, kObjectBytes, 7, key});
  }
  // Bytes of an object from `offset` on, and their place in memory.
  void add(std::vector<char>& memory, Metadata* object, std::uint64_t offset, std::size_t length) {
    Metadata* const host = registered(
        MemoryKind::kDram, {reinterpret_cast<std::uintptr_t>(memory.data()), memory.size(), 0, ""});
    local_.items.push_back(
        {reinterpret_cast<std::uintptr_t>(memory.data()) + offset, length, 0, host});
    remote_.items.push_back({offset, length, 7, object});
  }
  Status prepare(Operation operation) {
    return engine_->prepareTransfer(operation, local_, remote_, "self", handle_, nullptr);
  }
  Status post(Operation operation) {
    return engine_->postTransfer(operation, local_, remote_, "self", handle_, nullptr);
  }
  Status finish() {
    while (engine_->checkTransfer(handle_) == Status::kInProgress) std::this_thread::yield();
    return engine_->checkTransfer(handle_);
  }
  Status release() { return engine_->releaseRequest(handle_); }
  Status transfer(Operation operation) {
    const Status prepared = prepare(operation);
    if (prepared != Status::kSuccess) return prepared;
    post(operation);
    const Status ended = finish();
    EXPECT_EQ(release(), Status::kSuccess);
    local_.items.clear();
    remote_.items.clear();
    return ended;
  }
  std::vector<bool> query(const std::vector<std::string>& keys) {
    QueryList list{nullptr, MemoryKind::kObject, {}};
    for (const std::string& key : keys) list.items.push_back({0, 0, 0, key});
    std::vector<std::optional<Parameters>> answers;
    EXPECT_EQ(engine_->queryMemory(list, answers), Status::kSuccess);
    std::vector<bool> found;
    for (const auto& answer : answers) found.push_back(answer.has_value());
    return found;
  }

 private:
  Parameters parameters_;
  InitParameters init_{"self", "HEARTH", &parameters_, true, 0, 0, false};
  const std::unique_ptr<BackendEngine, void (*)(BackendEngine*)> engine_;
  TransferList local_{nullptr, MemoryKind::kDram, {}};
  TransferList remote_{nullptr, MemoryKind::kObject, {}};
  RequestHandle* handle_ = nullptr;
  std::vector<Metadata*> registered_;
};

std::vector<char> bytesOf(char first) {
  std::vector<char> bytes(kObjectBytes);
  std::iota(bytes.begin(), bytes.end(), first);
  return bytes;
}

struct NixlPluginTest : testing::Test {
  NixlPluginTest() { testing_client::useToken(testing_client::volumeCapability()); }
  ~NixlPluginTest() override { unsetenv("HEARTH_TOKEN"); }

  VolumeCluster cluster;
};

TEST_F(NixlPluginTest, AnotherNodeReadsTheObjectsOfATransferInOtherParts) {
  Nixl writer(cluster.a);
  std::vector<char> one = bytesOf(1), two = bytesOf(2);
  writer.add(one, writer.object("m@0/one"), 0, kObjectBytes);
  Metadata* const key = writer.object("m@0/two");
  writer.add(two, key, 100'000, 200'000);
  writer.add(two, key, 0, 100'000);
  ASSERT_EQ(writer.transfer(Operation::kWrite), Status::kSuccess);

  Nixl reader(cluster.c);
  EXPECT_EQ(reader.query({"m@0/one", "m@0/none", "m@0/two"}),
            (std::vector<bool>{true, false, true}));
  std::vector<char> read(kObjectBytes);
  for (const auto& [name, bytes] : {std::pair("m@0/one", &one), std::pair("m@0/two", &two)}) {
    Metadata* const object = reader.object(name);
    for (std::uint64_t offset = 0; offset < kObjectBytes; offset += 60'000)
      reader.add(read, object, offset, 60'000);
    ASSERT_EQ(reader.transfer(Operation::kRead), Status::kSuccess);
    EXPECT_EQ(read, *bytes);
  }
}

TEST_F(NixlPluginTest, ATransferIsPostedAgainWhenItHasEnded) {
  Nixl nixl(cluster.b);
  std::vector<char> bytes = bytesOf(3);
  nixl.add(bytes, nixl.object("again"), 0, kObjectBytes);
  ASSERT_EQ(nixl.prepare(Operation::kWrite), Status::kSuccess);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(nixl.post(Operation::kWrite), Status::kInProgress);
    EXPECT_EQ(nixl.finish(), Status::kSuccess);
  }
  EXPECT_EQ(nixl.release(), Status::kSuccess);
}

TEST_F(NixlPluginTest, AbsentObjectsAndThoseOfOtherWeightsAreNotFound) {
  Nixl writer(cluster.a);
  std::vector<char> bytes = bytesOf(4);
  writer.add(bytes, writer.object("block"), 0, kObjectBytes);
  ASSERT_EQ(writer.transfer(Operation::kWrite), Status::kSuccess);
  for (const char* const fingerprint : {"weights-1", "weights-2"}) {
    Nixl reader(cluster.a, fingerprint);
    reader.add(bytes, reader.object(fingerprint == std::string("weights-1") ? "none" : "block"), 0,
               kObjectBytes);
    EXPECT_EQ(reader.transfer(Operation::kRead), Status::kNotFound);
  }
}

TEST_F(NixlPluginTest, ObjectsAreReadAsLongAsTheyAreAndWrittenWithoutHoles) {
  Nixl nixl(cluster.a);
  std::vector<char> bytes = bytesOf(5);
  Metadata* const object = nixl.object("whole");
  nixl.add(bytes, object, 0, kObjectBytes - 1);
  ASSERT_EQ(nixl.transfer(Operation::kWrite), Status::kSuccess);
  nixl.add(bytes, object, 0, kObjectBytes);
  EXPECT_EQ(nixl.transfer(Operation::kRead), Status::kInvalidParameter) << "it is shorter";
  nixl.add(bytes, object, 0, kObjectBytes - 2);
  EXPECT_EQ(nixl.transfer(Operation::kRead), Status::kInvalidParameter) << "it is longer";
  Nixl holes(cluster.a);
  Metadata* const other = holes.object("holes");
  holes.add(bytes, other, 0, 1000);
  holes.add(bytes, other, 2000, 1000);
  EXPECT_EQ(holes.transfer(Operation::kWrite), Status::kInvalidParameter);
}

// libnixl keeps a handle that is not released, and tries again.
TEST_F(NixlPluginTest, ATransferInFlightIsReleasedOnceItsMemoryIsAtRest) {
  Nixl nixl(cluster.c);
  std::vector<char> bytes = bytesOf(6);
  for (int i = 0; i < 50; ++i)
    nixl.add(bytes, nixl.object("released " + std::to_string(i)), 0, kObjectBytes);
  ASSERT_EQ(nixl.prepare(Operation::kWrite), Status::kSuccess);
  ASSERT_EQ(nixl.post(Operation::kWrite), Status::kInProgress);
  Status released = nixl.release();
  EXPECT_TRUE(eventually([&] {
    if (released != Status::kSuccess) released = nixl.release();
    return released == Status::kSuccess;
  }));
}

TEST_F(NixlPluginTest, SaysWhatItNeeds) {
  EXPECT_EQ(plugin().apiVersion, kPluginApiVersion);
  EXPECT_STREQ(plugin().name(), "HEARTH");
  EXPECT_TRUE(plugin().options().contains("fingerprint"));
  Nixl anonymous(Parameters{{"volume", "kv"}, {"addresses", addressOf(cluster.a)}});
  EXPECT_TRUE(anonymous.engine().hasFailed()) << "no fingerprint";
  Nixl alone(Parameters{{"volume", "kv"},
                        {"fingerprint", "f"},
                        {"addresses", "gd2fs://127.0.0.1:1"},
                        {"cluster", "test"},
                        {"timeout_ms", "200"}});
  EXPECT_TRUE(alone.engine().hasFailed()) << "no agent";
}

}  // namespace
}  // namespace hearth::nixl

// An agent's transport and listener on a reactor and thread of its own, with a handler whose bytes
// are known. For tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/crc32c.h"
#include "base/testing/eventually.h"
#include "reactor/synchronization.h"
#include "transport/peer_transport.h"
#include "wire/frame.h"

namespace hearth {

using namespace std::chrono_literals;

inline std::vector<std::byte> patternBytes(std::size_t size) {
  std::vector<std::byte> bytes(size);
  std::uint64_t state = 88172645463325252ull;
  for (std::byte& byte : bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

// The handler's behaviour, by the first byte of a key.
enum Behaviour : std::uint8_t {
  kPlain,
  kAbsent,       // kTryElsewhere
  kSlow,         // answers after TestHandler::delay
  kStuck,        // answers when TestHandler::release is called
  kWrongLength,  // a byte less than asked
  kBadChecksum,  // always
  kBadOnce,      // the first time
  kLent,         // of what TestHandler::lend gives
};

inline ContentKey keyOf(Behaviour behaviour) {
  ContentKey key;
  key.bytes[0] = behaviour;
  return key;
}

class TestHandler final : public PeerHandler {
 public:
  explicit TestHandler(Reactor& reactor) : released(reactor), reactor_(reactor) {
    static const std::vector<std::byte> bytes = patternBytes(2 * kChunkBytes + 12345);
    manifest = bytes;
    chunk.assign(bytes.begin(), bytes.begin() + kChunkBytes);
    checksums = crc32cOfBlocks(chunk, kBlockBytes);
    manifestDigest = Sha256::of(manifest);
  }

  Task<Result<BytesAnswer>> onRead(std::string, ContentKey key, std::uint64_t offset,
                                   std::uint32_t length, Interest interest) override {
    ++reads;
    const std::span<const std::byte> bytes =
        std::span<const std::byte>(chunk).subspan(offset % kChunkBytes, length);
    BytesAnswer answer{bytes, {}, {}};
    if (length % kBlockBytes == 0 || offset % kChunkBytes + length == kChunkBytes) {
      const auto first = checksums.begin() + static_cast<long>(offset % kChunkBytes / kBlockBytes);
      answer.blockChecksums.assign(first, first + static_cast<long>(blocksOf(length)));
    } else {
      answer.blockChecksums = crc32cOfBlocks(bytes, kBlockBytes);
    }
    switch (static_cast<Behaviour>(key.bytes[0])) {
      case kPlain:
        break;
      case kAbsent:
        co_return Error{ErrorCode::kTryElsewhere, "not here"};
      case kSlow:
        co_await reactor_.sleep(delay);
        break;
      case kStuck:
        co_await released.wait();
        if (!interest.lives()) ++unwanted;
        break;
      case kWrongLength:
        answer.bytes = answer.bytes.first(length - 1);
        break;
      case kBadChecksum:
        answer.blockChecksums.back() ^= 1;
        break;
      case kBadOnce:
        if (badOnce.exchange(false)) answer.blockChecksums.back() ^= 1;
        break;
      case kLent:
        answer.lent = lend();
        break;
    }
    co_return answer;
  }
  Task<Result<BytesAnswer>> onReadManifest(std::string, Sha256Digest digest, std::uint64_t offset,
                                           std::uint32_t length) override {
    if (digest != manifestDigest) co_return Error{ErrorCode::kNotFound, "no such manifest"};
    const std::size_t begin = std::min<std::size_t>(offset, manifest.size());
    const std::size_t size = std::min<std::size_t>(length, manifest.size() - begin);
    const std::span<const std::byte> bytes =
        std::span<const std::byte>(manifest).subspan(begin, size);
    co_return BytesAnswer{bytes, crc32cOfBlocks(bytes, kBlockBytes), {}};
  }
  Task<Result<BytesAnswer>> onClientRead(std::shared_ptr<const Capability>, ContentKey key,
                                         std::uint64_t offset, std::uint32_t length,
                                         Interest interest) override {
    return onRead("client", key, offset, length, std::move(interest));
  }
  // Answers with as many bytes as the type says, in KiB.
  Task<Result<ControlMessage>> onClientControl(std::shared_ptr<const Capability>,
                                               ControlMessage request, Interest) override {
    request.body.resize(std::size_t{request.type} << 10);
    co_return request;
  }
  // Answers with the same body and the next type; type 99 fails.
  Task<Result<ControlMessage>> onControl(std::string fromNode, ControlMessage request) override {
    lastAsker = fromNode;
    if (request.type == 99) co_return Error{ErrorCode::kOutOfSpace, "full"};
    ++request.type;
    co_return request;
  }

  std::vector<std::byte> chunk, manifest;
  std::vector<std::uint32_t> checksums;
  Sha256Digest manifestDigest;
  Event released;
  Clock::duration delay = 100ms;
  std::atomic<bool> badOnce{true};
  std::function<std::shared_ptr<LentPayload>()> lend;
  std::atomic<int> reads{0}, unwanted{0};
  std::string lastAsker;

 private:
  Reactor& reactor_;
};

class TestNode {
 public:
  static std::vector<std::byte> secretOf(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  static TransportOptions optionsOf(std::string node) {
    TransportOptions options;
    options.node = std::move(node);
    options.incarnation = "1";
    options.cluster = "test";
    options.secret = secretOf("secret");
    return options;
  }

  explicit TestNode(TransportOptions given, Reactor::Backend backend = Reactor::Backend::kAutomatic,
                    std::vector<std::string> hosts = {"127.0.0.1"})
      : options(std::move(given)) {
    reactor = std::move(*Reactor::create(backend));
    handler = std::make_unique<TestHandler>(*reactor);
    transport = PeerTransport::create(*reactor, options, *handler);
    for (const std::string& host : hosts) {
      auto listener = Listener::create(*reactor, {host, 0}, [this](std::uint32_t shard, int fd) {
        lastShard = shard;
        (adopter != nullptr ? adopter : transport.get())->adopt(fd);
      });
      EXPECT_TRUE(listener.ok()) << listener.error().message;
      listeners.push_back(std::move(*listener));
    }
    thread = std::thread([this] { reactor->run(); });
  }
  ~TestNode() {
    close();
    reactor->stop();
    thread.join();
    transport.reset();
    listeners.clear();
  }

  // Runs the task that `make` returns on the node's thread; ends the test program when it hangs.
  template <class F>
  auto await(F make) {
    using Value = decltype(make().await_resume());
    // Shared: the future may be ready before set_value() is done with the promise.
    auto promise = std::make_shared<std::promise<Value>>();
    std::future<Value> future = promise->get_future();
    reactor->post([&make, promise] { spawn(drive<Value>(make(), promise)); });
    // Longer than any deadline that a test gives, whose error says more.
    if (future.wait_for(kHang + 1min) != std::future_status::ready) {
      fprintf(stderr, "a task of %s hangs\n", options.node.c_str());
      abort();
    }
    return future.get();
  }
  template <class F>
  void post(F function) {
    await([&] { return call(&function); });
  }

  void close() {
    if (closed) return;
    closed = true;
    for (const auto& listener : listeners) await([&] { return listener->close(); });
    post([this] { handler->released.set(); });
    await([this] { return transport->close(); });
  }
  [[nodiscard]] PeerIdentity identity() const {
    PeerIdentity peer{options.node, options.incarnation, {}};
    for (const auto& listener : listeners) peer.addresses.push_back(listener->address());
    return peer;
  }
  void setPeers(std::vector<PeerIdentity> peers) {
    post([&] {
      for (const auto& listener : listeners) listener->setPeers(peers);
      transport->setPeers(peers);
    });
  }
  Status read(const std::string& node, Behaviour behaviour, std::uint64_t offset,
              std::span<std::byte> into, Clock::duration timeout = kHang) {
    std::vector<std::uint32_t> checksums;
    const Status status = await([&] {
      return transport->read(node, keyOf(behaviour), offset, MemorySlice::of(into), checksums,
                             Clock::now() + timeout, RequestClass::kDemand);
    });
    if (status.ok()) {
      EXPECT_EQ(checksums, crc32cOfBlocks(into, kBlockBytes));
    }
    return status;
  }
  [[nodiscard]] PeerStatistics statisticsOf(const std::string& node) {
    PeerStatistics found;
    post([&] {
      for (const PeerStatistics& entry : transport->statistics()) {
        if (entry.node == node) found = entry;
      }
    });
    return found;
  }
  // Waits until the statistics of `node` satisfy `condition`.
  template <class F>
  bool eventually(const std::string& node, F condition) {
    return hearth::eventually([&] { return condition(statisticsOf(node)); });
  }

  TransportOptions options;
  std::unique_ptr<Reactor> reactor;
  std::unique_ptr<TestHandler> handler;
  std::unique_ptr<PeerTransport> transport;
  std::vector<std::unique_ptr<Listener>> listeners;
  PeerTransport* adopter = nullptr;  // of another shard; set before anyone dials
  std::atomic<std::uint32_t> lastShard{~0u};
  std::thread thread;
  bool closed = false;

 private:
  template <class Value>
  static Task<void> drive(Task<Value> task, std::shared_ptr<std::promise<Value>> promise) {
    if constexpr (std::is_void_v<Value>) {
      co_await task;
      promise->set_value();
    } else {
      Value value = co_await task;
      promise->set_value(std::move(value));
    }
  }
  template <class F>
  static Task<void> call(F* function) {
    (*function)();
    co_return;
  }
};

}  // namespace hearth

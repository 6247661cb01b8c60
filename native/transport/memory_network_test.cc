// 10,000 schedules a seed of writes and reads between agents on the network of this process
// (testing/memory_network.h), whose connections and agents end in the middle. Each write ends once;
// a successful write has landed; each block has bytes of the newest write that landed there; no
// memory is kept, or touched after it was given back. MEMORY_NETWORK_SEED chooses another seed.
#include "transport/testing/memory_network.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <map>
#include <set>

#include "transport/testing/schedule.h"

namespace hearth {
namespace {

using namespace std::chrono_literals;
using namespace testing_rails;

constexpr int kNetworkSchedules = 10'000;
constexpr int kNetworksAtOnce = 100;
// The last block is shorter than the others.
constexpr std::size_t kFileBytes = 6 * kBlockBytes - 777;
// Two agents write with the same few generations, so that equal ones meet, and each has bytes of
// its own for each of them.
const std::array<std::string, 2> kWriters{"a", "b"};
constexpr std::uint64_t kGenerations = 4;

ContentKey bytesKeyOf(const WriteVersion& version) {
  ContentKey key;
  key.bytes[0] = static_cast<std::uint8_t>(version.generation - 1 +
                                           (version.node == kWriters[0] ? 0 : kGenerations));
  return key;
}

struct NetworkTally {
  int reads = 0, writes = 0, equalGenerations = 0, agentsEnded = 0;
  std::size_t landings = 0, repeated = 0, faults = 0;
  std::map<ErrorCode, int> ended;
};

// Takes writes to one file, into memory of their own, and knows which landed; reads are of the
// pattern.
class Ledger final : public PeerHandler {
 public:
  Ledger(Reactor& reactor, std::mt19937_64& random) : reactor_(reactor), random_(random) {}

  Task<Result<BytesAnswer>> onRead(std::string, ContentKey key, std::uint64_t offset,
                                   std::uint32_t length, Interest) override {
    co_await someTurns();
    co_return BytesAnswer{bytesOf(key, offset, length), checksumsOf(key, offset, length), nullptr};
  }
  Task<Result<BytesAnswer>> onReadManifest(std::string, Sha256Digest, std::uint64_t,
                                           std::uint32_t) override {
    co_return Error{ErrorCode::kNotFound, "no manifests here"};
  }
  Task<Result<ControlMessage>> onControl(std::string, ControlMessage) override {
    co_return Error{ErrorCode::kUnsupported, "no control messages here"};
  }
  Task<Result<std::unique_ptr<WriteSink>>> onWrite(std::string from, WriteRequest request,
                                                   Interest) override {
    co_await someTurns();
    const WriteVersion version{request.generation, std::move(from)};
    for (const Block& block : blocksOfRange(request)) {
      if (block.version > version) co_return Error{ErrorCode::kConflict, "here are newer bytes"};
    }
    co_return std::make_unique<Sink>(*this, request, version);
  }

  struct Block {
    WriteVersion version;  // of the present bytes; generation 0: there are none
    std::set<WriteVersion> landed;
    bool taken = false;  // by a write that is under way
  };
  [[nodiscard]] std::span<Block> blocksOfRange(std::uint64_t offset, std::size_t size) {
    return std::span(blocks_).subspan(offset / kBlockBytes, blocksOf(size));
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  std::size_t landings = 0, repeated = 0;

 private:
  class Sink final : public WriteSink {
   public:
    Sink(Ledger& ledger, const WriteRequest& request, WriteVersion version)
        : ledger_(ledger),
          offset_(request.offset),
          version_(std::move(version)),
          bytes_(request.length) {
      for (Block& block : blocks()) EXPECT_FALSE(std::exchange(block.taken, true));
    }
    ~Sink() override {
      for (Block& block : blocks()) block.taken = false;
    }
    const MemoryVector& memory() const override { return memory_; }
    Task<Status> landed(std::vector<std::uint32_t> blockChecksums) override {
      EXPECT_EQ(blockChecksums, checksumsOf(bytesKeyOf(version_), offset_, bytes_.size()));
      co_await ledger_.someTurns();
      EXPECT_TRUE(same(bytesKeyOf(version_), offset_, bytes_));
      for (Block& block : blocks()) {
        EXPECT_LE(block.version, version_) << "it came over newer bytes";
        block.version = version_;
        ledger_.repeated += block.landed.insert(version_).second ? 0 : 1;
      }
      ++ledger_.landings;
      std::ranges::copy(bytes_, std::span(ledger_.bytes_).subspan(offset_).begin());
      co_return Status();
    }

   private:
    [[nodiscard]] std::span<Block> blocks() {
      return ledger_.blocksOfRange(offset_, bytes_.size());
    }
    Ledger& ledger_;
    const std::uint64_t offset_;
    const WriteVersion version_;
    std::vector<std::byte> bytes_;
    const MemoryVector memory_ = MemorySlice::of(bytes_);
  };

  [[nodiscard]] std::span<Block> blocksOfRange(const WriteRequest& request) {
    return blocksOfRange(request.offset, request.length);
  }
  [[nodiscard]] Task<void> someTurns() {
    for (std::uint64_t turns = random_() % 4; turns > 0; --turns)
      co_await reactor_.sleep(Clock::duration::zero());
  }

  Reactor& reactor_;
  std::mt19937_64& random_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kFileBytes);
  std::vector<Block> blocks_ = std::vector<Block>(blocksOf(kFileBytes));
};

struct NetworkTransfer {
  std::string from, to;
  ContentKey key;  // of its bytes
  std::uint64_t offset = 0, generation = 0;
  std::size_t size = 0;
  std::shared_ptr<std::vector<std::byte>> memory = nullptr;  // until it has ended
  std::weak_ptr<std::vector<std::byte>> watched = {};
  Status status = {};
  int ended = 0;
  [[nodiscard]] WriteVersion version() const { return {generation, from}; }
  [[nodiscard]] bool covers(std::size_t block) const {
    return offset <= block * kBlockBytes && block * kBlockBytes < offset + size;
  }
};

// One write after the other. A transport that still used the memory of a successful one would find
// other bytes.
Task<void> writeInTurn(PeerTransport& transport, std::span<NetworkTransfer> writes,
                       std::mt19937_64& random) {
  for (NetworkTransfer& write : writes) {
    Task<Status> writing =
        transport.write(write.to, ContentKey(), write.offset, write.generation, std::nullopt,
                        piecesOf(write.memory, random), Clock::now() + 1h, RequestClass::kDemand);
    write.status = co_await writing;
    ++write.ended;
    if (write.status.ok()) std::ranges::fill(*write.memory, std::byte{0xee});
    write.watched = std::exchange(write.memory, nullptr);
  }
}
Task<void> readOnce(PeerTransport& transport, NetworkTransfer& read, std::mt19937_64& random) {
  std::vector<std::uint32_t> checksums;
  Task<Status> reading =
      transport.read(read.to, read.key, read.offset, piecesOf(read.memory, random), checksums,
                     Clock::now() + 1h, RequestClass::kDemand);
  read.status = co_await reading;
  ++read.ended;
  if (!read.status.ok()) read.watched = std::exchange(read.memory, nullptr);
}

// The agents of one schedule: "a" and "b" write to "c", and all read.
class Agents {
 public:
  Agents(Reactor& reactor, std::uint64_t seed)
      : random(seed),
        ledger(reactor, random),
        reactor_(reactor),
        network_{{.rails = someFaults(random)}, random()} {
    std::vector<PeerIdentity> everyone;
    for (const char* const name : {"a", "b", "c"}) {
      TransportOptions options;
      options.node = name;
      options.incarnation = "1";
      everyone.push_back({name, "1", {}});
      transports_[name] = std::make_unique<MemoryTransport>(network_, reactor, options, ledger);
    }
    for (const auto& [name, transport] : transports_) transport->setPeers(everyone);
    drawWrites();
    drawReads();
  }

  void start(Gate& gate) {
    const auto ofA =
        static_cast<std::size_t>(std::ranges::count(writes, kWriters[0], &NetworkTransfer::from));
    // The writes of each race with those of the other, and of "a" also with one another.
    const std::size_t first = ofA == 0 ? 0 : random() % ofA;
    const auto all = std::span(writes);
    gate.spawn(writeInTurn(*transports_["a"], all.first(first), random));
    gate.spawn(writeInTurn(*transports_["a"], all.subspan(first, ofA - first), random));
    gate.spawn(writeInTurn(*transports_["b"], all.subspan(ofA), random));
    for (NetworkTransfer& read : reads) gate.spawn(readOnce(*transports_[read.from], read, random));
  }
  // Dropped and stalled messages end with their connections, and some agents end, too.
  [[nodiscard]] Task<void> breakAndEnd() {
    const std::uint64_t endsAt = random() % 4 == 0 ? 1 + random() % 64 : 0;
    for (std::uint64_t turn = 1; underWay(); ++turn) {
      co_await reactor_.sleep(Clock::duration::zero());
      if (turn == endsAt) {
        const auto ending = std::next(transports_.begin(), static_cast<long>(random() % 3));
        ended = ending->first;
        Task<void> closing = ending->second->close();
        co_await closing;
      }
      if (turn % 32 == 0)
        std::next(transports_.begin(), static_cast<long>(random() % 3))->second->breakRails();
    }
  }
  [[nodiscard]] Task<void> close() {
    for (const auto& [name, transport] : transports_) {
      if (name == ended) continue;
      Task<void> closing = transport->close();
      co_await closing;
    }
    transports_.clear();
  }
  [[nodiscard]] std::size_t faultsMet() const { return network_.faultsMet(); }

  std::mt19937_64 random;
  Ledger ledger;
  std::vector<NetworkTransfer> writes, reads;
  std::string ended;  // the agent that was closed in the middle

 private:
  void drawWrites() {
    for (const std::string& writer : kWriters) {
      for (std::uint64_t generation = 1 + random() % 2; generation <= kGenerations; ++generation) {
        if (random() % 3 == 0) continue;
        NetworkTransfer write{.from = writer, .to = "c", .key = {}, .generation = generation};
        write.key = bytesKeyOf(write.version());
        write.offset = random() % blocksOf(kFileBytes) * kBlockBytes;
        write.size =
            std::min<std::size_t>((1 + random() % 3) * kBlockBytes, kFileBytes - write.offset);
        const auto bytes = bytesOf(write.key, write.offset, write.size);
        write.memory = std::make_shared<std::vector<std::byte>>(bytes.begin(), bytes.end());
        writes.push_back(std::move(write));
      }
    }
  }
  void drawReads() {
    const std::array<std::pair<const char*, const char*>, 4> ways{
        {{"a", "c"}, {"b", "c"}, {"c", "a"}, {"c", "b"}}};
    for (std::uint64_t count = random() % 3; count > 0; --count) {
      const auto& [from, to] = ways[random() % ways.size()];
      NetworkTransfer read{.from = from, .to = to, .key = {}};
      read.key.bytes[0] = static_cast<std::uint8_t>(random());
      read.offset = random() % 8 * kBlockBytes;
      read.size = 1 + random() % (2 * kBlockBytes);
      read.memory = std::make_shared<std::vector<std::byte>>(read.size);
      reads.push_back(std::move(read));
    }
  }
  [[nodiscard]] bool underWay() const {
    const auto open = [](const NetworkTransfer& each) { return each.ended == 0; };
    return std::ranges::any_of(writes, open) || std::ranges::any_of(reads, open);
  }

  Reactor& reactor_;
  MemoryNetwork network_;
  std::map<std::string, std::unique_ptr<MemoryTransport>> transports_;
};

bool overlap(const NetworkTransfer& a, const NetworkTransfer& b) {
  return a.offset < b.offset + b.size && b.offset < a.offset + a.size;
}

// Checks that each answer was true.
void expectAnswered(Agents& agents, NetworkTally& tally) {
  for (NetworkTransfer& write : agents.writes) {
    ++tally.ended[write.status.code()];
    EXPECT_EQ(write.ended, 1);
    EXPECT_TRUE(write.watched.expired()) << "memory is not given back";
    const bool newerOne = std::ranges::any_of(agents.writes, [&](const NetworkTransfer& other) {
      return overlap(write, other) && other.version() > write.version();
    });
    EXPECT_TRUE(newerOne || write.status.code() != ErrorCode::kConflict);
    if (!write.status.ok()) continue;
    for (const Ledger::Block& block : agents.ledger.blocksOfRange(write.offset, write.size)) {
      EXPECT_TRUE(block.landed.contains(write.version())) << "a write was lost";
      EXPECT_GE(block.version, write.version());
    }
  }
  for (const NetworkTransfer& read : agents.reads) {
    ++tally.ended[read.status.code()];
    EXPECT_EQ(read.ended, 1);
    EXPECT_TRUE(read.watched.expired()) << "memory is not given back";
    // Checks again, when all late bytes have come.
    EXPECT_TRUE(!read.status.ok() || same(read.key, read.offset, *read.memory));
  }
}

// Checks that each block has the bytes of the newest write that landed there.
void expectNewestBytes(Agents& agents, NetworkTally& tally) {
  for (std::size_t i = 0; i < blocksOf(kFileBytes); ++i) {
    const std::size_t at = i * kBlockBytes;
    const std::size_t size = std::min(kBlockBytes, kFileBytes - at);
    const Ledger::Block& block = agents.ledger.blocksOfRange(at, size).front();
    EXPECT_FALSE(block.taken);
    if (block.landed.empty()) continue;
    EXPECT_EQ(block.version, *block.landed.rbegin());
    EXPECT_TRUE(same(bytesKeyOf(block.version), at, agents.ledger.bytes().subspan(at, size)));
    const auto rival = WriteVersion{block.version.generation,
                                    block.version.node == kWriters[0] ? kWriters[1] : kWriters[0]};
    tally.equalGenerations += block.landed.contains(rival) ? 1 : 0;
  }
}

Task<void> runNetwork(Reactor& reactor, std::uint64_t seed, NetworkTally& tally) {
  Agents agents(reactor, seed);
  Gate gate(reactor);
  agents.start(gate);
  co_await agents.breakAndEnd();
  co_await gate.close();
  co_await agents.close();
  SCOPED_TRACE("schedule " + std::to_string(seed));
  expectAnswered(agents, tally);
  expectNewestBytes(agents, tally);
  tally.reads += static_cast<int>(agents.reads.size());
  tally.writes += static_cast<int>(agents.writes.size());
  tally.agentsEnded += agents.ended.empty() ? 0 : 1;
  tally.landings += agents.ledger.landings;
  tally.repeated += agents.ledger.repeated;
  tally.faults += agents.faultsMet();
}

Task<bool> runNetworks(Reactor& reactor, std::uint64_t first, int count, NetworkTally& tally) {
  Gate gate(reactor);
  for (int i = 0; i < count; ++i)
    gate.spawn(runNetwork(reactor, first + static_cast<std::uint64_t>(i), tally));
  co_await gate.close();
  co_return true;
}

TEST(MemoryNetwork, TenThousandSchedulesLoseDoubleAndMixNoWrite) {
  const char* const chosen = std::getenv("MEMORY_NETWORK_SEED");
  const std::uint64_t seed = chosen != nullptr ? std::strtoull(chosen, nullptr, 10) : 20261124;
  const std::unique_ptr<Reactor> reactor = std::move(*Reactor::create());
  NetworkTally tally;
  for (int done = 0; done < kNetworkSchedules && !testing::Test::HasFailure();
       done += kNetworksAtOnce) {
    const std::uint64_t first = seed * kNetworkSchedules + static_cast<std::uint64_t>(done);
    reactor->runUntilComplete(runNetworks(*reactor, first, kNetworksAtOnce, tally));
  }
  std::printf(
      "seed %llu: %d writes, %d reads, %zu faults, %zu landings, %zu blocks landed again, %d of "
      "equal generations, %d agents ended;",
      static_cast<unsigned long long>(seed), tally.writes, tally.reads, tally.faults,
      tally.landings, tally.repeated, tally.equalGenerations, tally.agentsEnded);
  for (const auto& [code, times] : tally.ended)
    std::printf(" %s %d", std::string(errorName(code)).c_str(), times);
  std::printf("\n");
  // The faults were met, and most came through all the same.
  EXPECT_GT(tally.repeated, 100u);
  EXPECT_GT(tally.equalGenerations, 100);
  EXPECT_GT(tally.ended[ErrorCode::kConflict], 100);
  EXPECT_GT(tally.ended[ErrorCode::kOk], (tally.reads + tally.writes) / 2);
}

}  // namespace
}  // namespace hearth

#include "bench/testing/agent_pair.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/crc32c.h"

namespace hearth::bench {
namespace {

using testing_cluster::Agent;

constexpr char kLoadJob[] = "load";
constexpr std::uint64_t kUsualMemory = 512u << 20;
constexpr std::uint64_t kLittleMemory = 128u << 20;

// One file is one shard's, and stays in memory when half of that can hold it.
void holding(EngineOptions& options, std::uint64_t bytes, const AgentPairOptions& pair) {
  options.shards = std::max<std::size_t>(1, pair.loops);
  options.bufferBytes = pair.held == HeldIn::kDisk
                            ? kLittleMemory
                            : options.shards * std::max<std::uint64_t>(2 * bytes, kUsualMemory);
}

// The reader has the defaults of `hearth agent` unless a test asks for something else; warming does
// not wait for the disk.
void reading(EngineOptions& options, const AgentPairOptions& pair) {
  options.shards = pair.loops;
  options.bufferBytes = std::max<std::uint64_t>(4 * pair.load, kUsualMemory);
}

// The calling thread, and those that it starts, are in a network namespace for as long as this
// lives.
class InNamespace {
 public:
  explicit InNamespace(const std::string& netns) {
    if (netns.empty()) return;
    before_ = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    const int fd = open(("/run/netns/" + netns).c_str(), O_RDONLY | O_CLOEXEC);
    if (before_ < 0 || fd < 0 || setns(fd, CLONE_NEWNET) != 0)
      fail("there is no network namespace " + netns);
    close(fd);
  }
  ~InNamespace() {
    if (before_ < 0) return;
    if (setns(before_, CLONE_NEWNET) != 0) fail("the way back from a network namespace is lost");
    close(before_);
  }
  InNamespace(const InNamespace&) = delete;
  InNamespace& operator=(const InNamespace&) = delete;

 private:
  int before_ = -1;
};

std::unique_ptr<Agent> start(const std::string& name, const AgentPlace& place,
                             const std::function<void(EngineOptions&)>& adjust) {
  const InNamespace there(place.netns);
  return std::make_unique<Agent>(name, [&](EngineOptions& options) {
    options.listen.clear();
    for (const std::string& address : place.addresses) options.listen.push_back({address, 0});
    adjust(options);
  });
}

// Its pages come in the background after the start, which would take a processor meanwhile.
void awaitArena(Agent& agent) {
  const bool there = eventually([&agent] {
    const EngineStatistics now = agent.await(agent.engine().statistics());
    return now.arena.committedBytes == now.arena.bytes;
  });
  if (!there) fail("the memory of an agent has not come");
}

void warm(Agent& agent, const std::string& job, const std::shared_ptr<Dataset>& dataset) {
  WarmOptions options;
  options.job = job;
  options.entries = filesOf(*dataset->manifest);
  options.dataset = dataset;
  options.verify = Verification::kNone;
  if (!agent.engine().warm(std::move(options)).ok()) fail("a warm job cannot begin");
}

// In the cache file, and in memory as far as that goes.
void hold(Agent& agent, const testing_cluster::Origin& origin, const std::string& job) {
  warm(agent, job, agent.add(origin));
  const auto progress = [&] { return agent.engine().findJob(job)->progress(); };
  if (!eventually([&] { return progress().state == WarmState::kSucceeded; }))
    fail("the holder has not got the file");
}

}  // namespace

void fail(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what.c_str());
  std::exit(1);
}

void mustRead(const Status& status) {
  if (!status.ok()) fail(status.error().message);
}

AgentPair::AgentPair(std::uint64_t bytes, const AgentPairOptions& options)
    : memory_(bytes), holder_(start("holder", options.holder, [&](EngineOptions& each) {
        holding(each, bytes + options.load, options);
      })) {
  if (options.beforeReader) options.beforeReader();
  reader_ = start("reader", options.reader, [&](EngineOptions& each) { reading(each, options); });
  origin_.add("model", bytes);
  const std::string content = origin_.bytesOf("model");
  checksum_ = crc32c(std::as_bytes(std::span(content)));
  testing_cluster::connect({holder_.get(), reader_.get()});
  awaitArena(*holder_);
  awaitArena(*reader_);
  hold(*holder_, origin_, "warm");
  if (options.load != 0) {
    load_.add("load", options.load);
    hold(*holder_, load_, kLoadJob);
    loadDataset_ = reader_->add(load_);
  }
  const std::uint64_t kept = holder_->await(holder_->engine().statistics()).arena.keptBytes;
  if (options.held == HeldIn::kMemory && kept != bytes + options.load)
    fail("the holder has not got the file in its memory");
  dataset_ = reader_->add(origin_);
  entry_ = filesOf(*dataset_->manifest).front();
  // As an arena: described once, for as long as it is used.
  region_ = MemoryRegion::host(memory_.bytes());
}

Task<Status> AgentPair::read(std::uint64_t offset, std::uint64_t size) {
  Engine& engine = reader_->engine();
  co_await engine.home().enter();
  const MemorySlice into{region_, offset, size};
  co_return co_await engine.contents().read(dataset_, entry_, offset, MemoryVector(into));
}

void AgentPair::beginLoad() { warm(*reader_, kLoadJob, loadDataset_); }

bool AgentPair::loading() const {
  const WarmProgress job = reader_->engine().findJob(kLoadJob)->progress();
  return job.bytesInMemory < load_.bytes();
}

void AgentPair::compare() const {
  if (crc32c(memory_.bytes()) != checksum_) fail("other bytes have come than the file has");
}

}  // namespace hearth::bench

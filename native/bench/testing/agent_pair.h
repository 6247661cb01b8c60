// Two agents in one process, of which one holds a file, in its memory tier as a rule, and the other
// reads it into memory by the engine's path for that (Fetcher::readInto): for the programs of `make
// bench` that measure what is between agents. Each may be in a network namespace of its own. For
// the thread that made it, except where "any thread" is said; what goes wrong ends the program.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/huge_memory.h"
#include "engine/testing_cluster.h"

namespace hearth::bench {

// Prints the reason, and ends the program with 1.
[[noreturn]] void fail(const std::string& what);
void mustRead(const Status& status);

// Where an agent runs: a network namespace as `ip netns` knows it, and its addresses there, one a
// link. No name: where the program runs, on the loopback.
struct AgentPlace {
  std::string netns;
  std::vector<std::string> addresses{"127.0.0.1"};
};

// Where the holder has the file: its memory takes all of it, or hardly any.
enum class HeldIn : std::uint8_t { kMemory, kDisk };

struct AgentPairOptions {
  AgentPlace holder{}, reader{};
  std::uint64_t load = 0;  // of another file in the holder's memory; 0: none
  HeldIn held = HeldIn::kMemory;
  // Event loops of each agent; 0: one of the holder, and of the reader as `hearth agent` has them.
  std::size_t loops = 0;
  // Called by the thread that makes the pair, when the holder has started and the reader has not.
  std::function<void()> beforeReader{};
};

class AgentPair {
 public:
  // `bytes`: of the file that the holder has. Temporary files are below TMPDIR.
  explicit AgentPair(std::uint64_t bytes, const AgentPairOptions& options = {});

  // [offset, offset + size) of the file into the same place of memory(). Awaited on any thread;
  // continues on the reading agent's home shard.
  [[nodiscard]] Task<Status> read(std::uint64_t offset, std::uint64_t size);
  // The reading agent keeps the other file, as a warm job; the work ends when it is in memory.
  void beginLoad();
  // Any thread.
  [[nodiscard]] bool loading() const;
  // All of the file has been read, and is what the holder has.
  void compare() const;

  [[nodiscard]] testing_cluster::Agent& reader() { return *reader_; }
  [[nodiscard]] const HugeMemory& memory() const { return memory_; }

 private:
  HugeMemory memory_;
  testing_cluster::Origin origin_, load_;
  std::uint32_t checksum_ = 0;
  std::unique_ptr<testing_cluster::Agent> holder_, reader_;
  std::shared_ptr<Dataset> dataset_, loadDataset_;
  std::uint32_t entry_ = 0;
  std::shared_ptr<MemoryRegion> region_;
};

}  // namespace hearth::bench

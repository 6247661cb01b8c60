// The processes of one node that load the same model together, as the ranks of a tensor-parallel
// engine do: each reads its share of the bytes into memory that all of them have.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/owned_fd.h"
#include "base/result.h"

namespace hearth {

struct RankPlace {
  unsigned rank = 0;
  unsigned ranks = 1;
  // Names this load among others of the same user in the same network namespace.
  std::string group;
  // The end of each wait for other ranks.
  std::chrono::milliseconds timeout{600'000};
};

// One thread at a time. Rank 0 listens at an abstract Unix socket, which leaves nothing behind when
// a process dies; the end of a connection tells the other ranks that its process has ended.
class NodeRanks {
 public:
  // Blocks until all ranks are here. `agreed`, a hash of what they load, must be equal for all:
  // kInvalidArgument for each when it is not, or when two have the same rank. kDeadlineExceeded
  // names the ranks that are missing; kUnavailable: a rank has ended. One rank of one meets nobody.
  [[nodiscard]] static Result<std::unique_ptr<NodeRanks>> meet(const RankPlace& place,
                                                               std::uint64_t agreed,
                                                               std::uint64_t memoryBytes);

  // A file of memory (memfd_create(2)) of `memoryBytes` of rank 0, zeros, sealed against shrinking;
  // the same for all ranks. The kernel frees it with the last descriptor and mapping.
  [[nodiscard]] const OwnedFd& memory() const { return memory_; }

  // Tells the other ranks how this one fares and blocks until all have told. OK: all of them are
  // well, and each sees what the others have written to the memory before. Otherwise the first
  // failure, by rank, with its code and the rank in its message; errors also as meet(). All ranks
  // call it as often.
  [[nodiscard]] Status agree(const Status& mine);

  // The same at the end. OK: nobody can change the memory any more, whatever descriptors he has.
  // Called once, when this rank has no writable shared mapping of the memory any more: kInUse for
  // all while one has.
  [[nodiscard]] Status finish(const Status& mine);

 private:
  [[nodiscard]] Status agreeOn(const Status& mine, bool seals);
  struct Peer {
    unsigned rank = 0;
    OwnedFd socket;
  };
  NodeRanks(RankPlace place, OwnedFd memory, std::vector<Peer> peers)
      : place_(std::move(place)), memory_(std::move(memory)), peers_(std::move(peers)) {}
  [[nodiscard]] static Result<std::unique_ptr<NodeRanks>> lead(const RankPlace& place,
                                                               std::uint64_t agreed,
                                                               std::uint64_t memoryBytes);
  [[nodiscard]] static Result<std::unique_ptr<NodeRanks>> join(const RankPlace& place,
                                                               std::uint64_t agreed);

  const RankPlace place_;
  const OwnedFd memory_;
  const std::vector<Peer> peers_;  // of rank 0 all others, of others rank 0
};

}  // namespace hearth

#include "loader/node_ranks.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>

#include "loader/rank_socket.h"

namespace hearth {
namespace {

constexpr std::uint32_t kVersion = 1;
constexpr unsigned kMaxRanks = 1024;

struct Hello {
  std::uint32_t version = kVersion, rank = 0, ranks = 0, reserved = 0;
  std::uint64_t agreed = 0;
};

// A Status in a packet of constant size; a longer message is cut.
struct Verdict {
  std::uint32_t code = static_cast<std::uint32_t>(ErrorCode::kOk);
  std::uint32_t messageBytes = 0;
  std::array<char, 1016> message{};

  static Verdict of(const Status& status) {
    Verdict verdict;
    verdict.code = static_cast<std::uint32_t>(status.code());
    const std::string& text = status.error().message;
    verdict.messageBytes =
        static_cast<std::uint32_t>(std::min(text.size(), verdict.message.size()));
    std::copy_n(text.data(), verdict.messageBytes, verdict.message.data());
    return verdict;
  }
  [[nodiscard]] Status status() const {
    const auto sound = static_cast<ErrorCode>(code);
    if (sound == ErrorCode::kOk) return {};
    const std::size_t bytes = std::min<std::size_t>(messageBytes, message.size());
    return Error{sound, std::string(message.data(), bytes)};
  }
};

template <class Packet>
std::span<std::byte> bytesOf(Packet& packet) {
  return {reinterpret_cast<std::byte*>(&packet), sizeof packet};
}

std::string nameOf(unsigned rank) { return "rank " + std::to_string(rank); }

Result<OwnedFd> makeMemory(std::uint64_t bytes) {
  OwnedFd file(memfd_create("hearth-model", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return errnoError(errno, "make memory for all ranks");
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return errnoError(errno, "make memory for all ranks");
  }
  return file;
}

// Pages that the kernel still writes, or a rank has mapped to write, would change the model for
// all.
Status seal(const OwnedFd& memory) {
  if (fcntl(memory.get(), F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) == 0) return {};
  const int error = errno;
  if (error == EBUSY)
    return Error{ErrorCode::kInUse,
                 "a rank still has the memory of the model mapped to write; load again"};
  return errnoError(error, "seal the memory of the model");
}

// The fault of a rank that has said hello; nothing for one that fits.
std::optional<Error> mismatch(const Hello& hello, const Hello& mine,
                              const std::vector<bool>& isHere) {
  if (hello.version != mine.version || hello.ranks != mine.ranks || hello.rank >= mine.ranks) {
    return Error{ErrorCode::kInvalidArgument,
                 nameOf(hello.rank) + " of " + std::to_string(hello.ranks) + " came to a load of " +
                     std::to_string(mine.ranks) +
                     " ranks; give all the same world_size and each job its own group"};
  }
  if (isHere[hello.rank]) {
    return Error{ErrorCode::kInvalidArgument,
                 nameOf(hello.rank) + " came twice; give each job a group of its own"};
  }
  if (hello.agreed != mine.agreed) {
    return Error{ErrorCode::kInvalidArgument,
                 nameOf(hello.rank) +
                     " loads other files, other versions of them or other names than rank 0"};
  }
  return std::nullopt;
}

std::string missingOf(const std::vector<bool>& isHere) {
  std::string missing;
  for (unsigned rank = 0; rank < isHere.size(); ++rank) {
    if (!isHere[rank]) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
  }
  return missing;
}

}  // namespace

Result<std::unique_ptr<NodeRanks>> NodeRanks::meet(const RankPlace& place, std::uint64_t agreed,
                                                   std::uint64_t memoryBytes) {
  if (place.ranks == 0 || place.ranks > kMaxRanks || place.rank >= place.ranks) {
    return Error{ErrorCode::kInvalidArgument,
                 nameOf(place.rank) + " of " + std::to_string(place.ranks) +
                     " cannot be: ranks count from 0, and there are at most " +
                     std::to_string(kMaxRanks)};
  }
  return place.rank == 0 ? lead(place, agreed, memoryBytes) : join(place, agreed);
}

Result<std::unique_ptr<NodeRanks>> NodeRanks::lead(const RankPlace& place, std::uint64_t agreed,
                                                   std::uint64_t memoryBytes) {
  const RankDeadline deadline = std::chrono::steady_clock::now() + place.timeout;
  auto memory = makeMemory(memoryBytes);
  if (place.ranks == 1) {
    if (!memory) return memory.error();
    return std::unique_ptr<NodeRanks>(new NodeRanks(place, std::move(*memory), {}));
  }
  const auto listener = listenForRanks(place.group);
  if (!listener) return listener.error();
  Status verdict = memory.ok() ? Status() : Status(memory.error());
  const Hello mine{.ranks = place.ranks, .agreed = agreed};
  std::vector<bool> isHere(place.ranks);
  isHere[0] = true;
  std::vector<Peer> peers;
  for (unsigned met = 1; met < place.ranks;) {
    auto socket = acceptRank(listener->get(), deadline);
    if (!socket) {
      verdict = socket.error().within("these ranks have not come: " + missingOf(isHere));
      break;
    }
    Hello hello;
    const auto said = receivePacket(socket->get(), bytesOf(hello), deadline);
    // A process that ends before it speaks may be started again.
    if (said.code() == ErrorCode::kUnavailable) continue;
    ++met;
    auto wrong = said.ok() ? mismatch(hello, mine, isHere) : std::optional<Error>(said.error());
    if (!wrong) isHere[hello.rank] = true;
    if (wrong && verdict.ok()) verdict = std::move(*wrong);
    peers.push_back({hello.rank, std::move(*socket)});
  }
  Verdict packet = Verdict::of(verdict);
  for (const Peer& peer : peers) {
    // A rank that has ended meanwhile is found by finish().
    static_cast<void>(
        sendPacket(peer.socket.get(), bytesOf(packet), verdict.ok() ? memory->get() : -1));
  }
  if (!verdict) return verdict.error();
  return std::unique_ptr<NodeRanks>(new NodeRanks(place, std::move(*memory), std::move(peers)));
}

Result<std::unique_ptr<NodeRanks>> NodeRanks::join(const RankPlace& place, std::uint64_t agreed) {
  const RankDeadline deadline = std::chrono::steady_clock::now() + place.timeout;
  for (;;) {
    auto socket = connectToRank(place.group, deadline);
    if (!socket) return socket.error().within("rank 0 has not come");
    Hello hello{.rank = place.rank, .ranks = place.ranks, .agreed = agreed};
    const Status sent = sendPacket(socket->get(), bytesOf(hello));
    Verdict verdict;
    auto memory = sent ? receivePacket(socket->get(), bytesOf(verdict), deadline)
                       : Result<OwnedFd>(sent.error());
    // The listener of an earlier load closes with connections that it has not taken.
    if (memory.code() == ErrorCode::kUnavailable) continue;
    if (!memory) return memory.error().within("rank 0");
    if (const Status agreedOn = verdict.status(); !agreedOn) return agreedOn.error();
    if (!*memory) {
      return Error{ErrorCode::kOutOfSpace,
                   "no descriptor is free for the memory of the model; raise ulimit -n"};
    }
    std::vector<Peer> peers;
    peers.push_back({0, std::move(*socket)});
    return std::unique_ptr<NodeRanks>(new NodeRanks(place, std::move(*memory), std::move(peers)));
  }
}

Status NodeRanks::agree(const Status& mine) { return agreeOn(mine, false); }

Status NodeRanks::finish(const Status& mine) { return agreeOn(mine, true); }

Status NodeRanks::agreeOn(const Status& mine, bool seals) {
  if (place_.ranks == 1 && !mine) return mine;
  const RankDeadline deadline = std::chrono::steady_clock::now() + place_.timeout;
  Verdict packet = Verdict::of(mine ? mine : Status(mine.error().within(nameOf(place_.rank))));
  if (place_.rank != 0) {
    const Peer& leader = peers_.front();
    if (const Status sent = sendPacket(leader.socket.get(), bytesOf(packet)); !sent) {
      return sent.error().within(nameOf(0));
    }
    const auto answered = receivePacket(leader.socket.get(), bytesOf(packet), deadline);
    return answered ? packet.status() : Status(answered.error().within(nameOf(0)));
  }
  Status all = packet.status();
  for (const Peer& peer : peers_) {
    Verdict theirs;
    const auto told = receivePacket(peer.socket.get(), bytesOf(theirs), deadline);
    const Status status = told ? theirs.status() : Status(told.error().within(nameOf(peer.rank)));
    if (all.ok()) all = status;
  }
  if (all.ok() && seals) all = seal(memory_);
  packet = Verdict::of(all);
  for (const Peer& peer : peers_) static_cast<void>(sendPacket(peer.socket.get(), bytesOf(packet)));
  return all;
}

}  // namespace hearth

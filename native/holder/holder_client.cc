#include "holder/holder_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "holder/holder_socket.h"

namespace hearth {
namespace {

using Kind = HolderRequestKind;

constexpr char kNoHolder[] = "; is hearth-holder running?";

HolderRequest requestOf(Kind kind) {
  HolderRequest request;
  request.kind = kind;
  return request;
}

HolderRequest requestAt(Kind kind, const std::string& target) {
  HolderRequest request = requestOf(kind);
  request.target = target;
  return request;
}

HolderRequest requestNamed(Kind kind, const std::string& name) {
  HolderRequest request = requestOf(kind);
  request.name = name;
  return request;
}

}  // namespace

Result<std::unique_ptr<HolderClient>> HolderClient::connect(const std::string& socketPath,
                                                            std::chrono::milliseconds deadline) {
  const auto address = holderAddress(socketPath);
  if (!address) return address.error();
  OwnedFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return errnoError(errno, "create a Unix socket");
  const timeval limit{deadline.count() / 1000, (deadline.count() % 1000) * 1000};
  if (setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
      setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) {
    return errnoError(errno, "set the holder socket's deadline");
  }
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    if (errno == ENOENT || errno == ECONNREFUSED) {
      return Error{ErrorCode::kUnavailable, "no mount holder at " + socketPath + kNoHolder};
    }
    return errnoError(errno, "connect to the mount holder at " + socketPath);
  }
  std::unique_ptr<HolderClient> client(new HolderClient(std::move(socket)));
  if (Status greeted = client->greet(); !greeted) return greeted.error();
  return client;
}

Status HolderClient::greet() {
  HolderRequest request = requestOf(Kind::kHello);
  request.hello.emplace();
  auto answer = call(std::move(request));
  if (!answer) return answer.error();
  if (!answer->reply.hello) {
    return Error{ErrorCode::kProtocolError, "the mount holder's answer does not say who it is"};
  }
  holder_ = std::move(*answer->reply.hello);
  if (holder_.oldestVersion <= kHolderVersion && holder_.newestVersion >= kHolderOldestVersion) {
    return {};
  }
  return Error{ErrorCode::kUnsupported,
               "the mount holder speaks versions " + std::to_string(holder_.oldestVersion) +
                   " to " + std::to_string(holder_.newestVersion) + " and not " +
                   std::to_string(kHolderVersion) + "; restart it with a neighbouring release"};
}

Result<std::vector<HeldMount>> HolderClient::attach(const std::string& owner) {
  HolderRequest request = requestOf(Kind::kAttach);
  request.owner = owner;
  if (Status attached = callStatus(std::move(request)); !attached) return attached.error();
  std::vector<HeldMount> mounts;
  for (std::string after;;) {
    auto answer = call(requestAt(Kind::kTake, after));
    if (!answer) return answer.error();
    if (!answer->reply.record) return mounts;
    auto mount = held(std::move(*answer));
    if (!mount) return mount.error();
    after = mount->record.target;
    mounts.push_back(std::move(*mount));
  }
}

Status HolderClient::reattach(const std::string& owner) {
  HolderRequest request = requestOf(Kind::kAttach);
  request.owner = owner;
  request.continues = true;
  return callStatus(std::move(request));
}

Status HolderClient::enroll(const HeldMount& mount) {
  HolderRequest request = requestAt(Kind::kRegister, mount.record.target);
  request.source = mount.record.source;
  request.blob = mount.record.blob;
  request.state = mount.record.state;
  request.epoch = mount.record.epoch;
  request.minor = mount.record.minor;
  request.flags = mount.record.flags;
  const std::array descriptors{mount.device.get(), mount.shared.get()};
  return callStatus(std::move(request), descriptors);
}

Result<HeldMount> HolderClient::mount(const HolderMountRequest& wanted) {
  if (wanted.blob.size() > kMaxHolderBlob || wanted.source.size() > kMaxHolderText ||
      wanted.target.size() > kMaxHolderPath || wanted.options.size() > kMaxHolderOptions) {
    return Error{ErrorCode::kInvalidArgument,
                 "mount request: a value is longer than the holder takes"};
  }
  HolderRequest request = requestAt(Kind::kMount, wanted.target);
  request.source = wanted.source;
  request.blob = wanted.blob;
  request.options = wanted.options;
  request.flags = wanted.writable ? kHolderWritable : 0;
  request.readAheadKiB = wanted.readAheadKiB;
  auto answer = call(std::move(request));
  if (!answer) return answer.error();
  return held(std::move(*answer));
}

Status HolderClient::saveState(const std::string& target, const std::string& state) {
  HolderRequest request = requestAt(Kind::kSaveState, target);
  request.state = state;
  return callStatus(std::move(request));
}

Status HolderClient::unmount(const std::string& target, bool force) {
  HolderRequest request = requestAt(Kind::kUnmount, target);
  request.force = force;
  return callStatus(std::move(request));
}

Result<std::vector<HolderRecord>> HolderClient::list() {
  std::vector<HolderRecord> records;
  for (;;) {
    auto answer = call(requestAt(Kind::kList, records.empty() ? "" : records.back().target));
    if (!answer) return answer.error();
    if (!answer->reply.record) return records;
    records.push_back(std::move(*answer->reply.record));
  }
}

Status HolderClient::keepMemory(const HolderMemory& memory, const OwnedFd& descriptor) {
  HolderRequest request = requestNamed(Kind::kKeepMemory, memory.name);
  request.bytes = memory.bytes;
  request.generation = memory.generation;
  request.folder = memory.folder;
  request.noHugePages = memory.noHugePages;
  if (Status may = memory.folder ? needs(kHolderKeepsFolders) : Status(); !may) return may;
  const int given = descriptor.get();
  return callStatus(std::move(request), std::span(&given, 1));
}

Status HolderClient::needs(std::uint64_t feature) const {
  if ((holder_.features[0] & feature) != 0) return {};
  return Error{ErrorCode::kUnsupported,
               "the mount holder is of a release before this one and lacks: " +
                   missingFeatures({feature, 0}, {}) + "; replace it (hearth-holder --take-over)"};
}

Result<KeptMemory> HolderClient::takeMemory(const std::string& name) {
  return memoryIn(call(requestNamed(Kind::kTakeMemory, name)));
}

Result<KeptMemory> HolderClient::openFolder(const std::string& name, std::uint64_t bytes) {
  if (Status may = needs(kHolderKeepsFolders); !may) return may.error();
  HolderRequest request = requestNamed(Kind::kOpenFolder, name);
  request.bytes = bytes;
  return memoryIn(call(std::move(request)));
}

Result<KeptMemory> HolderClient::memoryIn(Result<Answer> answer) {
  if (!answer) return answer.error();
  if (!answer->reply.memory || answer->descriptors.size() != 1) {
    return Error{ErrorCode::kProtocolError, "the mount holder's answer has no memory in it"};
  }
  return KeptMemory{std::move(*answer->reply.memory), std::move(answer->descriptors.front())};
}

Result<std::uint64_t> HolderClient::touchMemory(const std::string& name, std::uint64_t offset,
                                                std::uint64_t bytes, std::uint64_t piece) {
  if ((holder_.features[0] & kHolderTouchesMemory) == 0) {
    return Error{ErrorCode::kUnsupported,
                 "the mount holder is of a release that touches no memory; touch it in the agent"};
  }
  HolderRequest request = requestNamed(Kind::kTouchMemory, name);
  request.offset = offset;
  request.bytes = bytes;
  return touch(std::move(request), piece);
}

Result<std::uint64_t> HolderClient::touchFile(const std::string& folder, const OwnedFd& file,
                                              std::uint64_t offset, std::uint64_t bytes,
                                              std::uint64_t piece) {
  if (Status may = needs(kHolderKeepsFolders); !may) return may.error();
  HolderRequest request = requestNamed(Kind::kTouchFile, folder);
  request.offset = offset;
  request.bytes = bytes;
  const int given = file.get();
  return touch(std::move(request), piece, std::span(&given, 1));
}

Result<std::uint64_t> HolderClient::touch(HolderRequest request, std::uint64_t piece,
                                          std::span<const int> descriptors) {
  const std::uint64_t offset = request.offset, bytes = request.bytes;
  std::uint64_t huge = 0;
  for (std::uint64_t done = 0; done < bytes; done += piece) {
    request.offset = offset + done;
    request.bytes = std::min(piece, bytes - done);
    auto answer = call(request, descriptors);
    if (!answer) return answer.error();
    huge += answer->reply.hugeBytes;
  }
  return huge;
}

Result<std::vector<HolderMemory>> HolderClient::listMemory() {
  std::vector<HolderMemory> records;
  for (;;) {
    auto answer = call(requestNamed(Kind::kListMemory, records.empty() ? "" : records.back().name));
    if (!answer) return answer.error();
    if (!answer->reply.memory) return records;
    records.push_back(std::move(*answer->reply.memory));
  }
}

Status HolderClient::dropMemory(const std::string& name) {
  return callStatus(requestNamed(Kind::kDropMemory, name));
}

Result<std::uint32_t> HolderClient::openBacking(const std::string& target, const OwnedFd& file) {
  const int given = file.get();
  auto answer = call(requestAt(Kind::kOpenBacking, target), std::span(&given, 1));
  if (!answer) return answer.error();
  return answer->reply.backingId;
}

Status HolderClient::closeBacking(const std::string& target, std::uint32_t id) {
  HolderRequest request = requestAt(Kind::kCloseBacking, target);
  request.backingId = id;
  return callStatus(std::move(request));
}

Result<HandedOver> HolderClient::handOver() {
  HandedOver all;
  HolderRequest request = requestOf(Kind::kHandOver);
  for (;; ++request.position) {
    auto answer = call(request);
    if (!answer) return answer.error();
    HolderReply& reply = answer->reply;
    std::vector<OwnedFd>& given = answer->descriptors;
    if (!reply.record && !reply.memory) return all;
    if (reply.memory && given.size() == 1) {
      all.memory.push_back({std::move(*reply.memory), std::move(given.front())});
    } else if (reply.record && given.size() == 2) {
      all.mounts.push_back({std::move(*reply.record), std::move(given[0]), std::move(given[1])});
    } else if (reply.record && reply.record->aborted) {
      all.mounts.push_back({std::move(*reply.record), OwnedFd(), OwnedFd()});
    } else {
      return Error{ErrorCode::kProtocolError, "the holder before this one gives no descriptors"};
    }
  }
}

Result<HolderListener> HolderClient::takeListener() {
  auto answer = call(requestOf(Kind::kHandOverSocket));
  if (!answer) return answer.error();
  std::vector<OwnedFd>& given = answer->descriptors;
  if (given.size() != 2) {
    return Error{ErrorCode::kProtocolError, "the holder before this one gives no socket"};
  }
  return HolderListener{std::move(given[0]), std::move(given[1])};
}

Status HolderClient::finishHandOver() {
  Status done = callStatus(requestOf(Kind::kHandOverDone));
  const std::lock_guard lock(mutex_);
  if (done || !broken_) return done;
  // The connection is shut, so its answer is here, or cannot be sent any more.
  const auto late = receive(MSG_DONTWAIT);
  return late && late->reply.sequence == sequence_ && late->reply.code == ErrorCode::kOk ? Status()
                                                                                         : done;
}

Result<HeldMount> HolderClient::held(Answer answer) {
  if (!answer.reply.record || answer.descriptors.size() != 2) {
    return Error{ErrorCode::kProtocolError, "the mount holder's answer has no mount in it"};
  }
  return HeldMount{std::move(*answer.reply.record), std::move(answer.descriptors[0]),
                   std::move(answer.descriptors[1])};
}

Status HolderClient::callStatus(HolderRequest request, std::span<const int> descriptors) {
  const auto answer = call(std::move(request), descriptors);
  return answer ? Status() : Status(answer.error());
}

Result<HolderClient::Answer> HolderClient::call(HolderRequest request,
                                                std::span<const int> descriptors) {
  const std::lock_guard lock(mutex_);
  if (broken_) {
    return Error{ErrorCode::kUnavailable,
                 "the connection to the mount holder is lost; connect again"};
  }
  request.sequence = ++sequence_;
  auto answer = exchange(request, descriptors);
  // An answer that comes late would be taken for that of the next request.
  if (!answer) {
    end();
    return answer.error();
  }
  const HolderReply& reply = answer->reply;
  if (reply.code != ErrorCode::kOk) return Error{reply.code, reply.message};
  if (reply.sequence != request.sequence) {
    end();
    return Error{ErrorCode::kProtocolError, "the mount holder answered another request"};
  }
  return answer;
}

Result<HolderClient::Answer> HolderClient::exchange(const HolderRequest& request,
                                                    std::span<const int> descriptors) {
  const std::vector<std::byte> bytes = encode(request);
  if (!sendDatagram(socket_.get(), bytes, descriptors, 0)) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Error{ErrorCode::kDeadlineExceeded, "the mount holder does not read in time"};
    }
    return errnoError(errno, "send to the mount holder");
  }
  return receive(0);
}

Result<HolderClient::Answer> HolderClient::receive(int flags) {
  auto datagram = receiveDatagram(socket_.get(), flags);
  if (datagram.code() == ErrorCode::kDeadlineExceeded) {
    return Error{ErrorCode::kDeadlineExceeded, "the mount holder does not answer in time"};
  }
  if (!datagram) return datagram.error();
  if (datagram->bytes.empty()) {
    return Error{ErrorCode::kUnavailable,
                 std::string("the mount holder closed the connection") + kNoHolder};
  }
  auto reply = decodeHolderReply(datagram->bytes);
  if (!reply) return reply.error();
  return Answer{std::move(*reply), std::move(datagram->descriptors)};
}

void HolderClient::end() {
  broken_ = true;
  // Wakes whoever waits, here and at the holder.
  shutdown(socket_.get(), SHUT_RDWR);
}

void HolderClient::waitForEnd() const {
  pollfd end{socket_.get(), POLLRDHUP, 0};
  while (!broken_ && poll(&end, 1, -1) <= 0) {
  }
}

bool HolderClient::alive() const {
  if (broken_) return false;
  pollfd end{socket_.get(), POLLRDHUP, 0};
  return poll(&end, 1, 0) == 0;
}

}  // namespace hearth

#include "engine/client_writes.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/client_file_bytes.h"
#include "wire/authentication.h"

namespace hearth {
namespace {

// How often a range looks whether its client still waits.
constexpr Clock::duration kLook = std::chrono::milliseconds(100);
// Until the client asks for the commit, which it does before it sends a byte.
constexpr Clock::duration kCommitWithin = std::chrono::seconds(10);
// A client that sends its bytes more slowly has to begin again.
constexpr Clock::duration kPartWithin = std::chrono::seconds(60);
// Smaller ranges are not worth a question to the leader, which refuses the publish.
constexpr std::uint64_t kAskForRoomFrom = 64u << 20;
// Parts of a range that lie apart. A client sends them in order, some at a time.
constexpr std::size_t kMaxParts = 4096;

// Clients have no users: any pod may write what another has made.
constexpr std::uint16_t kFileMode = 0666;

Error unknown() {
  return {ErrorCode::kTryElsewhere, "this agent does not know the range that is written"};
}

}  // namespace

Error volumeError(std::int32_t error, std::string_view what) {
  Error found = errnoError(error, what);
  if (error == ESHUTDOWN || error == ESTALE) found.code = ErrorCode::kUnavailable;
  if (error == EISDIR || error == ELOOP) found.code = ErrorCode::kInvalidArgument;
  return found;
}

struct ClientWrites::File {
  tree::InodeId inode = tree::kNoInode;
  tree::Place place;
  std::optional<tree::Place> becomes;
  bool created = false;    // by one of the ranges
  std::uint64_t size = 0;  // in bytes, when the first range began
  OwnedFd session;         // for reading alone
  std::set<const Range*> underWay;
  ByteRanges finished;
};

struct ClientWrites::Range {
  explicit Range(Reactor& reactor) : changed(reactor), still(reactor), over(reactor) {}
  ContentKey ticket;
  ClientIdentity client;
  ClientShares::Share share;
  std::shared_ptr<File> file;
  std::uint64_t offset = 0, length = 0;
  // Receives the bytes where the file has others, which must not go before all of the range has
  // come; nothing: the bytes go into the session file at once.
  OwnedFd stage;
  ByteRanges landed;   // in the range
  ByteRanges touched;  // by bytes that have landed, or may have
  std::size_t writing = 0;
  bool ended = false;  // takes no bytes any more
  std::optional<Interest> interest;
  Clock::time_point progressAt = Clock::now();
  Status outcome;
  Event changed, still, over;
};

ClientWrites::ClientWrites(Reactor& reactor, VolumeFiles& files, ThreadPool& disk,
                           tree::WideId volume)
    : reactor_(reactor),
      files_(files),
      disk_(disk),
      volume_(volume),
      shares_(ClientLimits::shared(kMaxRanges)),
      removing_(reactor, 1),
      closing_(reactor),
      running_(reactor) {}

tree::WideId ClientWrites::volumeOf(const ContentKey& ticket) {
  tree::WideId volume{};
  std::copy_n(ticket.bytes.begin(), volume.size(), volume.begin());
  return volume;
}

ClientWrites::RangePtr ClientWrites::find(const ContentKey& ticket,
                                          const ClientIdentity& client) const {
  const auto found = ranges_.find(ticket);
  return found != ranges_.end() && found->second->client == client ? found->second : nullptr;
}

Task<Status> ClientWrites::checkRoom(std::uint64_t end) {
  if (end < kAskForRoomFrom) co_return Status();
  const QueryReply reply = co_await files_.query(UsageQuery{});
  if (reply.error != 0) co_return volumeError(reply.error, "asking for the volume's room");
  if (!reply.usage || reply.usage->maxBytes == 0 || end <= reply.usage->maxBytes)
    co_return Status();
  co_return Error{ErrorCode::kOutOfSpace, "the range ends behind the limit of the volume"};
}

Task<Result<ContentKey>> ClientWrites::begin(ClientIdentity client, tree::Place place,
                                             std::uint64_t offset, std::uint64_t length) {
  return beginWanted(std::move(client), {std::move(place), offset, length, std::nullopt});
}

Task<Result<ContentKey>> ClientWrites::beginWhole(ClientIdentity client, tree::Place place,
                                                  std::uint64_t length, tree::Place becomes) {
  return beginWanted(std::move(client), {std::move(place), 0, length, std::move(becomes)});
}

Task<Result<ContentKey>> ClientWrites::beginWanted(ClientIdentity client, Wanted wanted) {
  if (closing_.isSet()) co_return Error{ErrorCode::kUnavailable, "the volume is being closed"};
  ClientShares::Share share = shares_.take(client, 1);
  if (!share) {
    co_return Error{ErrorCode::kUnavailable,
                    holderOf(shares_.bound(client, 1)) + " too many writes under way"};
  }
  const Status room = co_await checkRoom(wanted.offset + wanted.length);
  if (!room.ok()) co_return room.error();
  co_await removing_.acquire(1);
  removing_.release(1);
  const auto opening = opening_.emplace(wanted.place.folder, wanted.place.name);
  Result<ContentKey> ticket = co_await join(std::move(client), std::move(wanted), std::move(share));
  opening_.erase(opening);
  co_return ticket;
}

Task<Result<ContentKey>> ClientWrites::join(ClientIdentity client, Wanted wanted,
                                            ClientShares::Share share) {
  OpenedVolumeFile opened =
      co_await files_.create({.place = wanted.place, .mode = kFileMode, .opens = true}, false);
  if (opened.error != 0) co_return volumeError(opened.error, "opening a file of a volume");
  if (opened.idle) co_return Error{ErrorCode::kInUse, "another node is writing the file"};
  const tree::InodeId inode = opened.attributes.id;
  std::shared_ptr<File>& known = open_[inode];
  if (known == nullptr) {
    known = std::make_shared<File>();
    known->inode = inode;
    known->place = std::move(wanted.place);
    known->becomes = std::move(wanted.becomes);
    known->size = opened.attributes.size;
    known->session = std::move(opened.session);
  }
  const std::shared_ptr<File> file = known;
  file->created = file->created || opened.created;
  auto range = std::make_shared<Range>(reactor_);
  const Nonce nonce = randomNonce();
  std::ranges::copy(volume_, range->ticket.bytes.begin());
  std::copy_n(nonce.begin(), range->ticket.bytes.size() - volume_.size(),
              range->ticket.bytes.begin() + static_cast<std::ptrdiff_t>(volume_.size()));
  range->client = std::move(client);
  range->share = std::move(share);
  range->file = file;
  range->offset = wanted.offset;
  range->length = wanted.length;
  file->underWay.insert(range.get());
  Status staged;
  if (wanted.offset < std::max(file->size, file->finished.end())) {
    auto make = [&] { return std::make_shared<Result<OwnedFd>>(makeStage(file->session.get())); };
    const auto stage = co_await reactor_.offload(disk_, make);
    if (stage->ok()) {
      range->stage = std::move(**stage);
    } else {
      staged = stage->error();
    }
  }
  if (staged.ok() && closing_.isSet())
    staged = Error{ErrorCode::kUnavailable, "the volume is being closed"};
  if (!staged.ok()) {
    (void)co_await leave(*range);
    co_return staged.error();
  }
  ranges_.emplace(range->ticket, range);
  running_.spawn(drive(range));
  co_return range->ticket;
}

Status ClientWrites::check(const ContentKey& ticket, const ClientIdentity& client,
                           std::uint64_t offset, std::uint64_t length) const {
  const RangePtr range = find(ticket, client);
  if (range == nullptr || range->ended) return unknown();
  if (offset > range->length || length > range->length - offset)
    return Error{ErrorCode::kInvalidArgument, "the bytes lie outside of their range"};
  return {};
}

Task<Status> ClientWrites::write(ContentKey ticket, ClientIdentity client, std::uint64_t offset,
                                 MemoryVector bytes) {
  const Status awaited = check(ticket, client, offset, bytes.size());
  if (!awaited.ok()) co_return awaited;
  const RangePtr range = find(ticket, client);
  if (range->landed.ranges().size() >= kMaxParts)
    co_return Error{ErrorCode::kInvalidArgument, "the parts of a range come without an order"};
  const std::uint64_t end = offset + bytes.size();
  range->touched.add(offset, end);
  ++range->writing;
  const bool isStaged = static_cast<bool>(range->stage);
  const int target = isStaged ? range->stage.get() : range->file->session.get();
  const std::uint64_t at = isStaged ? offset : range->offset + offset;
  const Status written =
      co_await reactor_.offload(disk_, [&] { return writeBytes(target, at, bytes); });
  if (written.ok()) range->landed.add(offset, end);
  if (!written.ok() && range->outcome.ok()) range->outcome = written;
  range->progressAt = Clock::now();
  if (--range->writing == 0) range->still.set();
  range->changed.set();
  co_return written;
}

Task<Status> ClientWrites::commit(ContentKey ticket, ClientIdentity client, Interest interest) {
  const RangePtr range = find(ticket, client);
  if (range == nullptr) co_return unknown();
  range->interest = std::move(interest);
  range->changed.set();
  co_await range->over.wait();
  co_return range->outcome;
}

void ClientWrites::abandon(const ContentKey& ticket, const ClientIdentity& client) {
  const RangePtr range = find(ticket, client);
  if (range == nullptr || !range->outcome.ok()) return;
  range->outcome = Error{ErrorCode::kCancelled, "the client has given the write up"};
  range->changed.set();
}

Task<void> ClientWrites::awaitBytes(Range& range) {
  const auto fail = [&range](ErrorCode code, const char* why) { range.outcome = Error{code, why}; };
  while (range.outcome.ok()) {
    const Clock::time_point now = Clock::now();
    if (closing_.isSet()) {
      fail(ErrorCode::kUnavailable, "the volume is being closed");
    } else if (range.interest && !range.interest->lives()) {
      fail(ErrorCode::kCancelled, "the client has gone");
    } else if (range.interest && range.landed.bytes() == range.length) {
      co_return;
    } else if (now - range.progressAt > (range.interest ? kPartWithin : kCommitWithin)) {
      fail(ErrorCode::kDeadlineExceeded, "the client has sent nothing for too long");
    } else {
      range.changed.reset();
      co_await range.changed.waitUntil(now + kLook);
    }
  }
}

Task<void> ClientWrites::drive(RangePtr range) {
  co_await awaitBytes(*range);
  range->ended = true;
  // Bytes that come twice may be on their way to the disk still.
  while (range->writing != 0) {
    range->still.reset();
    co_await range->still.wait();
  }
  if (range->outcome.ok()) {
    range->outcome = co_await finish(*range);
  } else {
    co_await takeBack(*range);
  }
  ranges_.erase(range->ticket);
  range->over.set();
}

Task<Status> ClientWrites::finish(Range& range) {
  const std::shared_ptr<File> file = range.file;
  Status written;
  if (range.stage) {
    auto copy = [&] {
      return copyBytes(range.stage.get(), file->session.get(), range.offset, range.length);
    };
    written = co_await reactor_.offload(disk_, copy);
  }
  // A part of it may be in the file, as of a program's write that fails.
  file->finished.add(range.offset, range.offset + range.length);
  const Status published = co_await leave(range);
  co_return written.ok() ? published : written;
}

Task<void> ClientWrites::takeBack(Range& range) {
  const std::shared_ptr<File> file = range.file;
  if (!range.stage && range.touched.bytes() != 0) {
    ByteRanges own;
    for (const auto& [begin, end] : range.touched.ranges())
      own.add(range.offset + begin, range.offset + end);
    std::uint64_t size = std::max(file->size, file->finished.end());
    for (const auto& [begin, end] : file->finished.ranges()) own.remove(begin, end);
    // Their bytes may be written in this moment; they take back what they do not finish.
    for (const Range* const other : file->underWay) {
      if (other == &range || other->stage) continue;
      own.remove(other->offset, other->offset + other->length);
      size = std::max(size, other->offset + other->touched.end());
    }
    auto undo = [&] { return hearth::takeBack(file->session.get(), own, size); };
    (void)co_await reactor_.offload(disk_, undo);
  }
  (void)co_await leave(range);
}

Task<Status> ClientWrites::leave(Range& range) {
  const std::shared_ptr<File> file = range.file;
  file->underWay.erase(&range);
  std::int32_t error = 0;
  if (file->underWay.empty()) {
    open_.erase(file->inode);
    if (file->finished.bytes() != 0) {
      error = file->becomes ? co_await publishAs(*file) : co_await files_.publish(file->inode);
    } else if (file->created) {
      co_await removeEmpty(*file);
    }
  }
  co_await files_.closeWriter(file->inode);
  co_return error == 0 ? Status() : Status(volumeError(error, "publishing a file of a volume"));
}

Task<std::int32_t> ClientWrites::publishAs(const File& file) {
  const ChangeReply named =
      co_await files_.change(tree::Rename{.from = file.place,
                                          .to = *file.becomes,
                                          .mode = tree::RenameMode::kNoReplace,
                                          .publish = std::nullopt});
  if (named.answer.error == 0) co_return 0;
  (void)co_await files_.change(tree::Unlink{file.place});
  co_return named.answer.error == EEXIST ? 0 : named.answer.error;
}

// Before the writer is closed: until then no other agent can open the file for writing.
Task<void> ClientWrites::removeEmpty(const File& file) {
  co_await removing_.acquire(1);
  const Result<std::uint64_t> size = sizeOf(file.session.get());
  const bool isUsed = opening_.contains({file.place.folder, file.place.name}) ||
                      open_.contains(file.inode) || !size.ok() || *size != 0;
  if (!isUsed) {
    const QueryReply found = co_await files_.query(LookUpQuery{file.place});
    if (found.error == 0 && found.attributes && found.attributes->id == file.inode)
      (void)co_await files_.change(tree::Unlink{file.place});
  }
  removing_.release(1);
}

Task<void> ClientWrites::close() {
  closing_.set();
  for (const auto& [ticket, range] : ranges_) range->changed.set();
  co_await running_.close();
}

}  // namespace hearth

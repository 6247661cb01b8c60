// Ranges of files of one volume that clients write, from their beginning until the file is
// published. A client has no handle of a file, so the writes say when it is published: when none of
// the file is under way any more. A range that its client does not finish is taken back, so that
// nobody reads a part of it. On the volume's reactor.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/content_key.h"
#include "base/owned_fd.h"
#include "engine/byte_ranges.h"
#include "memory/memory_vector.h"
#include "reactor/synchronization.h"
#include "reactor/thread_pool.h"
#include "transport/client_shares.h"
#include "transport/peer_transport.h"
#include "volume_mount/volume_files.h"

namespace hearth {

// Turns an errno of VolumeFiles into a client's error. A leader that is away and an agent that ends
// give codes with which the client tries the same request again, here or elsewhere.
[[nodiscard]] Error volumeError(std::int32_t error, std::string_view what);

class ClientWrites {
 public:
  // Ranges under way of all clients, of which a pod has half.
  static constexpr std::uint64_t kMaxRanges = 4096;

  // `disk`: its threads write, and wait for the disk. All outlive this object.
  ClientWrites(Reactor& reactor, VolumeFiles& files, ThreadPool& disk, tree::WideId volume);

  // The volume that a ticket is of.
  [[nodiscard]] static tree::WideId volumeOf(const ContentKey& ticket);

  // Opens the file for writing, makes it where it is not there, and returns the range's ticket,
  // which is the client's alone. kInUse: another agent writes the file; kUnavailable: too many
  // ranges are under way; kOutOfSpace: the range ends behind what the volume may have.
  [[nodiscard]] Task<Result<ContentKey>> begin(ClientIdentity client, tree::Place place,
                                               std::uint64_t offset, std::uint64_t length);
  // The same for the whole of a new file, which gets the name `becomes` in the record that
  // publishes it, so that no reader of that name sees a part of it, whoever dies. A file that has
  // that name already stays, and the new one goes. `place` is a name that nobody else uses.
  [[nodiscard]] Task<Result<ContentKey>> beginWhole(ClientIdentity client, tree::Place place,
                                                    std::uint64_t length, tree::Place becomes);
  // Ok: the ticket awaits [offset, offset + length). kTryElsewhere: the client has no such ticket
  // (any more).
  [[nodiscard]] Status check(const ContentKey& ticket, const ClientIdentity& client,
                             std::uint64_t offset, std::uint64_t length) const;
  // The bytes from `offset` of the ticket on; the same may come again. Errors as of check(), and of
  // the disk, which end the range.
  [[nodiscard]] Task<Status> write(ContentKey ticket, ClientIdentity client, std::uint64_t offset,
                                   MemoryVector bytes);
  // Ends when the whole range is written and published, or in the file while others of the same
  // file are under way. The range is taken back when the interest ends before all has come.
  [[nodiscard]] Task<Status> commit(ContentKey ticket, ClientIdentity client, Interest interest);
  // Takes the range back.
  void abandon(const ContentKey& ticket, const ClientIdentity& client);
  [[nodiscard]] std::size_t underWay() const { return ranges_.size(); }

  // Takes all back, and refuses others. Once, before destruction, and before `files` ends.
  [[nodiscard]] Task<void> close();

 private:
  struct Range;
  // A file while ranges of it are under way.
  struct File;
  using RangePtr = std::shared_ptr<Range>;

  [[nodiscard]] RangePtr find(const ContentKey& ticket, const ClientIdentity& client) const;
  [[nodiscard]] Task<Status> checkRoom(std::uint64_t end);
  struct Wanted {
    tree::Place place;
    std::uint64_t offset = 0, length = 0;
    std::optional<tree::Place> becomes;
  };
  [[nodiscard]] Task<Result<ContentKey>> beginWanted(ClientIdentity client, Wanted wanted);
  [[nodiscard]] Task<Result<ContentKey>> join(ClientIdentity client, Wanted wanted,
                                              ClientShares::Share share);
  // Waits for the range's bytes and its commit, and ends it.
  [[nodiscard]] Task<void> drive(RangePtr range);
  [[nodiscard]] Task<void> awaitBytes(Range& range);
  [[nodiscard]] Task<Status> finish(Range& range);
  [[nodiscard]] Task<void> takeBack(Range& range);
  // After a range of the file has ended: publishes, when it was the last one.
  [[nodiscard]] Task<Status> leave(Range& range);
  // Publishes the file under the name that it becomes. 0 or an errno.
  [[nodiscard]] Task<std::int32_t> publishAs(const File& file);
  // Of a file that a range has made, and into which nothing was written.
  [[nodiscard]] Task<void> removeEmpty(const File& file);

  Reactor& reactor_;
  VolumeFiles& files_;
  ThreadPool& disk_;
  const tree::WideId volume_;
  ClientShares shares_;
  std::map<ContentKey, RangePtr> ranges_;
  std::map<tree::InodeId, std::shared_ptr<File>> open_;
  // Names that ranges are opening. Taken before a file is removed that a range has made, so that no
  // other range has just opened it.
  std::multiset<std::pair<tree::InodeId, std::string>> opening_;
  Semaphore removing_;
  Event closing_;
  Gate running_;
};

}  // namespace hearth

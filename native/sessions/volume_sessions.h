// One writable volume on this node: sessions, publishing, and reading published content. It answers
// the volume's mounts (volume_mount/volume_files.h) with the help of the leader
// (volume/volume_client.h) and of the content cache. docs/design/sessions.md explains it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "mount/mount_ports.h"
#include "sessions/content_run.h"
#include "sessions/publish_log.h"
#include "sessions/published_files.h"
#include "sessions/spare_files.h"
#include "sessions/written_file.h"
#include "volume/volume_client.h"
#include "volume_mount/volume_files.h"

namespace hearth {

struct SessionOptions {
  tree::WideId store{};
  tree::WideId volume{};
  std::string id;    // the volume's, as a name of folders
  std::string name;  // for people
  std::vector<std::string> cacheDirectories;
  Clock::duration deadline{};  // of the volume, at first
};

// The content that a file's writer published last, for readers that come by its key.
struct PublishedVolumeFile {
  std::int32_t error = 0;  // an errno
  tree::Attributes attributes;
  std::optional<FileReference> content;  // nothing: the file is empty, or no file
  // Keeps the content readable, as OpenedVolumeFile's does; null while this node writes the file,
  // whose session keeps it.
  std::shared_ptr<MountSource::OpenFile> reading;
};

struct SessionStatistics {
  std::uint64_t sessions = 0;
  std::uint64_t sessionBytes = 0;
  // Requests of mounts that were answered without their calls (VolumeFiles::reportEnded()).
  std::uint64_t overdue = 0;
  std::uint64_t unserved = 0;
};

class VolumeSessions final : public VolumeFiles {
 public:
  // All of these outlive the object. `reactor`: one of the shards'.
  struct Ports {
    Reactor& reactor;
    VolumeClient& client;
    const MountPorts& mounting;
    PublishedFiles& published;
    // True: the store has no lease of that node's agent any more. Empty: not known of any.
    std::function<bool(const std::string& node)> isGone = {};
  };
  VolumeSessions(Ports ports, SessionOptions options);
  ~VolumeSessions() override;
  VolumeSessions(const VolumeSessions&) = delete;
  VolumeSessions& operator=(const VolumeSessions&) = delete;

  // On the reactor. Makes the volume's folders and takes back what an earlier agent had sealed.
  // Errors of the cache directories' disks. Before all other calls.
  [[nodiscard]] Task<Status> open();
  // Ends what goes on in the background as soon as the calls to the leader that it waits for do.
  void stop() { closing_.set(); }
  // Waits for that: session files stay for the next agent. Once, before destruction.
  [[nodiscard]] Task<void> close();

  [[nodiscard]] Reactor& reactor() override { return ports_.reactor; }
  [[nodiscard]] Clock::duration deadline() const override { return deadline_; }
  [[nodiscard]] Clock::time_point lastProgress(tree::InodeId inode) const override;
  // Of the volume, as it is now. On the reactor.
  void setDeadline(Clock::duration deadline) { deadline_ = deadline; }
  [[nodiscard]] Task<void> resume(std::vector<InheritedWriter> writers) override;
  void reportEnded(std::uint64_t overdue, std::uint64_t unserved) override {
    overdue_ += overdue;
    unserved_ += unserved;
  }
  void addOpenFiles(IsOpen isOpen) override { openFiles_.push_back(std::move(isOpen)); }
  [[nodiscard]] Task<QueryReply> query(VolumeQuery query) override;
  [[nodiscard]] Task<ChangeReply> change(tree::ClientChange change,
                                         std::shared_ptr<RequestNote> note = nullptr) override;
  [[nodiscard]] Task<OpenedVolumeFile> openToRead(tree::InodeId inode,
                                                  std::optional<tree::Place> place) override;
  [[nodiscard]] Task<OpenedVolumeFile> openToWrite(tree::InodeId inode,
                                                   std::optional<tree::Place> place,
                                                   bool truncates) override;
  [[nodiscard]] Task<OpenedVolumeFile> create(tree::Create create, bool truncates,
                                              std::shared_ptr<RequestNote> note = nullptr) override;
  [[nodiscard]] Task<std::int32_t> write(tree::InodeId inode, std::optional<std::uint64_t> offset,
                                         std::span<const std::byte> bytes) override;
  [[nodiscard]] Task<std::int32_t> publish(tree::InodeId inode) override;
  [[nodiscard]] Task<std::int32_t> sync(tree::InodeId inode) override;
  [[nodiscard]] Task<std::int32_t> allocate(tree::InodeId inode, std::uint32_t mode,
                                            std::uint64_t offset, std::uint64_t length) override;
  [[nodiscard]] Task<void> nameSession(tree::InodeId inode) override;
  [[nodiscard]] Task<void> closeWriter(tree::InodeId inode) override;

  [[nodiscard]] SessionStatistics statistics() const;
  // Of a file. Reads the session file where this node has published what nobody has read yet.
  // Errors as of openToRead().
  [[nodiscard]] Task<PublishedVolumeFile> openPublished(tree::InodeId inode);
  // resume() has ended: session files of an earlier agent are this one's, or are gone.
  [[nodiscard]] bool resumed() const { return resumed_; }
  // The volume was deleted: eviction may take its sealed files.
  void unpin() const;

 private:
  using FilePtr = std::shared_ptr<WrittenFile>;
  // The turn of one file; released by the destructor.
  class Turn;
  struct SealedFile {
    SealedName name;
    std::size_t directory = 0;
  };
  // A publish that is about to be asked for.
  struct Prepared {
    tree::Publish change;
    FileMark mark;
    std::optional<FileHash> hash;  // nothing: the session file is read later
  };

  // Of a file that this node does not write: its sealed file survives a crash of the kernel.
  [[nodiscard]] Task<std::int32_t> syncSealed(tree::InodeId inode);
  [[nodiscard]] Task<Turn> turnOf(tree::InodeId inode);
  // The file that this node writes; null: none.
  [[nodiscard]] FilePtr written(tree::InodeId inode) const;
  [[nodiscard]] std::string pathOf(const SessionName& name, std::size_t directory) const;
  [[nodiscard]] ContentKey keyOfRun(tree::SessionId session, std::uint32_t first,
                                    std::uint64_t length) const;

  // --- opening (opening.cc) ---
  struct NewSessionFile {
    std::size_t directory = 0;
    std::string path;
    OwnedFd file;
  };
  // Waits for a moment for another agent's session to end. EBUSY: it goes on; of an empty file
  // `ask` may get an answer without a session then.
  [[nodiscard]] Task<ChangeReply> askForSession(tree::ClientChange ask,
                                                std::shared_ptr<RequestNote> note = nullptr);
  [[nodiscard]] static OpenedVolumeFile idle(const ChangeReply& reply);
  // Opens the file, applies `change` to its session file on a helper, publishes and closes.
  [[nodiscard]] Task<std::int32_t> changeBytes(
      tree::InodeId inode, std::function<std::int32_t(const std::string& path)> change);
  // With the turn held, after the leader has granted `reply`'s session. Counts a writer.
  [[nodiscard]] Task<OpenedVolumeFile> joinSession(WrittenFile& file, ChangeReply reply,
                                                   bool truncates);
  [[nodiscard]] Task<std::int32_t> renew(WriteSession& session, tree::InodeId inode,
                                         tree::Answer answer);
  [[nodiscard]] Task<std::int32_t> beginSession(WrittenFile& file, const ChangeReply& reply,
                                                bool truncates);
  [[nodiscard]] Task<Result<NewSessionFile>> copyContent(tree::Attributes about, SessionName name,
                                                         Progress& progress);
  // Writes bytes of another node into a new file.
  [[nodiscard]] Task<Status> bring(tree::ChunkRun run, std::uint64_t length, std::string path,
                                   Progress& progress);
  [[nodiscard]] OpenedVolumeFile opened(const WriteSession& session,
                                        std::optional<tree::Attributes> about) const;
  [[nodiscard]] Task<OpenedVolumeFile> openAnswered(std::optional<Turn>& turn, QueryReply reply);
  // The content of the attributes, through this node's cache.
  [[nodiscard]] Task<OpenedVolumeFile> openContent(tree::Attributes about,
                                                   std::optional<tree::Content> content);
  // The agent that wrote the file is gone, and no other one gives its first bytes.
  [[nodiscard]] Task<bool> isLost(const std::string& holder, std::uint64_t length,
                                  MountSource::OpenFile& reader);
  // A content as the file of a dataset.
  [[nodiscard]] Task<Result<FileReference>> referenceTo(tree::ChunkRun run, std::uint64_t length);
  [[nodiscard]] Task<Result<std::shared_ptr<MountSource::OpenFile>>> readerOf(FileReference file);
  // The chunks of `session` stay while the result lives. Null: it cannot be read, as the log says.
  [[nodiscard]] Task<std::shared_ptr<MountSource::OpenFile>> openReader(
      tree::InodeId inode, tree::SessionId session, Result<FileReference> content);
  [[nodiscard]] Task<PublishedVolumeFile> openPublishedOf(std::optional<Turn>& turn,
                                                          tree::InodeId inode);

  // --- publishing (publishing.cc), each with the turn held ---
  [[nodiscard]] Task<Result<Prepared>> prepare(WrittenFile& file);
  // For a file that is to be sealed: nothing will be compared with its bytes. kConflict: it is open
  // for writing.
  [[nodiscard]] Task<Result<Prepared>> prepareLast(const WrittenFile& file);
  // The publish of the whole session file as `mark` shows it.
  [[nodiscard]] Task<Result<Prepared>> describe(const WrittenFile& file, FileMark mark);
  // Before a byte leaves this node: the next agent may have to know them. False: not written.
  [[nodiscard]] Task<bool> notePublish(const tree::Content& content, const FileHash& hash);
  void published(WriteSession& session, Prepared prepared, const tree::Answer& answer);
  // Gives the session file to readers of other nodes, as `session.published` says.
  void servePublished(const WriteSession& session);
  // Reads what was published before it was read, and gives it to readers of other nodes. Before
  // anybody may write to the file again.
  [[nodiscard]] Task<void> readContent(WrittenFile& file);
  // The same, unless the file is sealed in a moment. Takes the turn itself.
  [[nodiscard]] Task<void> readContentSoon(FilePtr file, tree::ContentVersion version);
  // An errno; 0: done, or nothing has changed.
  [[nodiscard]] Task<std::int32_t> publishHeld(WrittenFile& file);
  void noteRefused(WriteSession& session, const tree::Answer& answer) const;

  // --- sealing (sealing.cc) ---
  void beginSealing(const FilePtr& file);
  [[nodiscard]] Task<void> seal(FilePtr file);
  // Until programs ask for nothing, or kSealWithin is over.
  [[nodiscard]] Task<void> awaitQuiet();
  // With the turn held. True: the session is gone, or must not be sealed now.
  [[nodiscard]] Task<bool> trySeal(WrittenFile& file);
  // Ends the session, with a last publish if that is needed. kConflict: the file is open for
  // writing.
  [[nodiscard]] Task<Status> endSession(WrittenFile& file);
  [[nodiscard]] Task<std::int32_t> endAtLeader(WrittenFile& file, std::optional<Prepared> last);
  // Of a session that has ended or is over: moves its file into the cache, or removes it.
  [[nodiscard]] Task<Status> settle(WrittenFile& file);
  [[nodiscard]] Task<Status> takeIn(SealedFile sealed, std::uint64_t size,
                                    std::vector<std::uint32_t> blockChecksums);
  void report(WriteSession& session, std::string problem) const;

  // --- changes (changes.cc) ---
  [[nodiscard]] Task<ChangeReply> setAttributes(tree::SetAttributes change);
  template <class Change>
  [[nodiscard]] Task<ChangeReply> changeNames(Change change, tree::InodeId inode,
                                              std::shared_ptr<RequestNote> note);
  // Of the change that an earlier agent has asked for on behalf of the same request.
  [[nodiscard]] Task<std::optional<ChangeReply>> earlierAnswer(std::shared_ptr<RequestNote> note);
  void adjust(tree::Attributes& attributes) const;

  // --- files that an earlier agent left (resuming.cc) ---
  // Gives the spare files that programs write to the names of their sessions, and removes others.
  [[nodiscard]] Task<void> resumeSpares(std::vector<InheritedWriter> writers);
  [[nodiscard]] Task<void> adoptSession(SessionName name, std::size_t directory,
                                        std::uint32_t writers);
  // The session file has the bytes of `content`, which the earlier agent published: readers of
  // other nodes get them from now on.
  [[nodiscard]] Task<void> recognise(WriteSession& session, tree::ContentVersion content);
  // The same for content that the earlier agent published before it was read: no reader has a byte
  // of it, so those of the session file now are its own.
  [[nodiscard]] Task<void> recogniseUnread(WrittenFile& file, tree::ContentVersion content);
  // Nothing: no leader has answered, and the engine or the volume closes.
  [[nodiscard]] Task<std::optional<tree::Answer>> askToAdopt(SessionName name);
  [[nodiscard]] Task<void> restoreAll(std::vector<SealedFile> files);
  // `ran`: the machine has run since the file was written.
  [[nodiscard]] Task<void> restore(SealedFile file, bool ran);

  // --- files and chunks that may go (upkeep.cc) ---
  [[nodiscard]] std::string pathOf(const SealedName& name, std::size_t directory) const;
  [[nodiscard]] Task<void> upkeep();
  [[nodiscard]] bool isUsed(tree::InodeId inode) const;
  // Some process has the chunks open, or is opening the file.
  [[nodiscard]] bool isRead(const tree::Garbage& garbage) const;
  // False: a reader has it open, or it is being sealed; later.
  [[nodiscard]] Task<bool> collect(const tree::Garbage& garbage);

  const Ports ports_;
  const SessionOptions options_;
  Clock::duration deadline_;
  std::uint64_t overdue_ = 0, unserved_ = 0;
  const std::string owner_;  // of pins
  FileHasher hasher_;
  // Null when it cannot be written. One call at a time.
  std::unique_ptr<PublishLog> publishes_;
  Semaphore publishesTurn_;
  std::map<tree::InodeId, FilePtr> files_;
  std::vector<IsOpen> openFiles_;
  // Contents that were opened, by inode.
  struct Reader {
    tree::SessionId session = tree::kNoSession;  // that wrote the chunks
    std::weak_ptr<MountSource::OpenFile> file;
  };
  std::multimap<tree::InodeId, Reader> readers_;
  // Opens that the leader may have answered already; once for each.
  std::multiset<tree::InodeId> opening_;
  // A session leaves one sealed file at most.
  std::unordered_map<tree::SessionId, SealedFile> sealed_;
  std::size_t sweepReadersAt_ = 1024;
  bool resumed_ = false;
  std::uint64_t endings_ = 0;      // of sessions, so far
  Clock::time_point lastAsked_{};  // a program's last request, or its last close
  std::size_t nextDirectory_ = 0;
  std::vector<std::unique_ptr<SpareFiles>> spares_;  // of each cache directory
  std::vector<std::string> leftSpares_;              // of an earlier agent
  Event closing_;
  Gate running_;
};

}  // namespace hearth

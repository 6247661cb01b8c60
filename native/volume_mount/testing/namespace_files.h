// A volume for tests of its mounts: a real tree, session files in a temporary folder, and no
// network. Each node of a test has one NamespaceFiles; all are on one reactor.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "namespace/testing/led_namespace.h"
#include "volume_mount/volume_files.h"

namespace hearth::volume_testing {

// What all nodes share: the tree, and the published bytes by content version.
struct TestVolume {
  explicit TestVolume(std::filesystem::path where) : folder(std::move(where)) {}
  [[nodiscard]] std::string pathOf(const tree::ContentVersion& version) const {
    return folder / ("content-" + std::to_string(static_cast<std::uint64_t>(version.session)) +
                     "-" + std::to_string(version.counter));
  }
  std::filesystem::path folder;
  tree::LedNamespace led;
};

inline std::string bytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::uint64_t sizeOf(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

class NamespaceFiles final : public VolumeFiles {
 public:
  NamespaceFiles(TestVolume& volume, Reactor& reactor, const std::string& node,
                 std::uint8_t incarnation = 1)
      : volume_(volume),
        reactor_(reactor),
        node_(node),
        client_(volume.led.join(node, incarnation)) {}

  // Contents that this node published are whole and local, others are read through the agent.
  class Content final : public MountSource::OpenFile {
   public:
    Content(const std::string& path, bool local)
        : bytes_(std::make_shared<std::string>(bytesOf(path))) {
      if (local) file_.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    }
    Result<int> backing() override {
      if (!file_) return Error{ErrorCode::kNotFound, "on another node"};
      return file_.get();
    }
    Result<MappedBytes> tryRead(std::uint64_t offset, std::uint32_t length) override {
      return MappedBytes{std::as_bytes(std::span(*bytes_)).subspan(offset, length), bytes_, {}, {}};
    }
    void read(std::uint64_t offset, std::uint32_t length,
              std::function<void(Result<MappedBytes>)> answer, std::function<bool()>) override {
      answer(tryRead(offset, length));
    }
    void willNeed(std::uint64_t, std::uint64_t) override {}
    void loadAhead(std::uint64_t, std::uint64_t) override {}

   private:
    const std::shared_ptr<std::string> bytes_;
    OwnedFd file_;
  };

  Reactor& reactor() override { return reactor_; }
  Clock::duration deadline() const override { return limit; }
  Clock::time_point lastProgress(tree::InodeId) const override { return progress; }

  Task<void> resume(std::vector<InheritedWriter> writers) override {
    inherited = writers;
    for (const InheritedWriter& writer : writers) {
      const tree::Session* const before = volume_.led.tree.session(writer.inode);
      if (before == nullptr) continue;
      const tree::ContentVersion base = volume_.led.tree.attributes(writer.inode)->content;
      const auto granted = volume_.led.ask(
          client_, tree::OpenForWriting{.inode = writer.inode, .adopts = {{before->id, base}}});
      Writing& writing = sessions_[writer.inode];
      writing = {.session = granted.session, .base = base, .writers = writer.handles};
      writing.published = sizeOf(volume_.pathOf(base));
    }
    co_return;
  }

  Task<QueryReply> query(VolumeQuery query) override {
    ++queries;
    QueryReply reply = answerQuery(volume_.led.tree, query);
    if (reply.attributes) reply.attributes = withSize(*reply.attributes);
    for (ListedEntry& entry : reply.entries) entry.attributes = withSize(entry.attributes);
    co_return reply;
  }

  Task<ChangeReply> change(tree::ClientChange change,
                           std::shared_ptr<RequestNote> note = nullptr) override {
    if (const auto answered = earlier(note)) co_return replyTo(*answered);
    if (auto* const rename = std::get_if<tree::Rename>(&change)) {
      const auto from = volume_.led.tree.lookUp(rename->from.folder, rename->from.name);
      if (sessions_.contains(from.inode)) rename->publish = makePublish(from.inode, false);
    }
    if (auto* const link = std::get_if<tree::Link>(&change)) {
      if (sessions_.contains(link->inode)) link->publish = makePublish(link->inode, false);
    }
    if (auto* const set = std::get_if<tree::SetAttributes>(&change); set != nullptr && set->size) {
      const std::uint64_t size = *std::exchange(set->size, std::nullopt);
      if (const auto opened = write(set->inode, size == 0); opened.error != 0)
        co_return ChangeReply{.answer = {.error = opened.error}};
      std::int32_t error = truncate(path(set->inode).c_str(), static_cast<off_t>(size));
      error = error == 0 ? publishNow(set->inode, false) : errno;
      end(set->inode);
      if (error != 0) co_return ChangeReply{.answer = {.error = error}};
    }
    const tree::Answer answer = ask(std::move(change), note);
    while (keepsAnswers) co_await reactor_.sleep(std::chrono::milliseconds(1));
    co_return replyTo(answer);
  }

  Task<OpenedVolumeFile> openToRead(tree::InodeId inode, std::optional<tree::Place>) override {
    const auto about = volume_.led.tree.attributes(inode);
    OpenedVolumeFile opened;
    if (!about) opened.error = ESTALE;
    if (!about) co_return opened;
    opened.attributes = withSize(*about);
    opened.version = about->content;
    if (const auto writing = sessions_.find(inode); writing != sessions_.end()) {
      opened.version = {writing->second.session, 0};
      opened.session.reset(open(path(inode).c_str(), O_RDONLY | O_CLOEXEC));
    } else if (opened.attributes.size != 0) {
      const tree::Content* const content = volume_.led.tree.content(inode);
      const bool local = content->runs.front().holder == client_.agent;
      opened.reading = std::make_shared<Content>(volume_.pathOf(content->version), local);
    }
    co_return opened;
  }

  Task<OpenedVolumeFile> openToWrite(tree::InodeId inode, std::optional<tree::Place>,
                                     bool truncates) override {
    co_return write(inode, truncates);
  }

  Task<OpenedVolumeFile> create(tree::Create create, bool truncates,
                                std::shared_ptr<RequestNote> note = nullptr) override {
    const auto answered = earlier(note);
    const tree::Answer made = answered ? *answered : ask(std::move(create), note);
    while (keepsAnswers) co_await reactor_.sleep(std::chrono::milliseconds(1));
    if (made.error != 0) co_return OpenedVolumeFile{.error = made.error};
    OpenedVolumeFile opened = write(made.inode, truncates);
    opened.created = made.created;
    co_return opened;
  }

  Task<std::int32_t> write(tree::InodeId inode, std::optional<std::uint64_t> offset,
                           std::span<const std::byte> bytes) override {
    const OpenedVolumeFile opened = write(inode, false);
    if (opened.idle || opened.error != 0) co_return opened.error != 0 ? opened.error : EBUSY;
    const OwnedFd file(open(path(inode).c_str(), O_WRONLY | O_CLOEXEC));
    const std::uint64_t at = offset.value_or(sizeOf(path(inode)));
    std::int32_t error = 0;
    if (pwrite(file.get(), bytes.data(), bytes.size(), static_cast<off_t>(at)) < 0) error = errno;
    if (error == 0) error = publishNow(inode, false);
    end(inode);
    co_return error;
  }

  Task<std::int32_t> publish(tree::InodeId inode) override {
    ++publishes;
    if (const std::int32_t error = publishError; error != 0) co_return error;
    co_return publishNow(inode, false);
  }
  Task<std::int32_t> sync(tree::InodeId inode) override {
    const OwnedFd file(open(path(inode).c_str(), O_RDONLY | O_CLOEXEC));
    ++syncs;
    co_return fdatasync(file.get()) == 0 ? 0 : errno;
  }
  Task<std::int32_t> allocate(tree::InodeId inode, std::uint32_t mode, std::uint64_t offset,
                              std::uint64_t length) override {
    const OwnedFd file(open(path(inode).c_str(), O_RDWR | O_CLOEXEC));
    co_return fallocate(file.get(), static_cast<int>(mode), static_cast<off_t>(offset),
                        static_cast<off_t>(length)) == 0
        ? 0
        : errno;
  }
  Task<void> closeWriter(tree::InodeId inode) override {
    end(inode);
    co_return;
  }

  void addOpenFiles(IsOpen isOpen) override { openFiles_.push_back(std::move(isOpen)); }

  // On the reactor.
  [[nodiscard]] bool isOpen(tree::InodeId inode) const {
    return std::any_of(openFiles_.begin(), openFiles_.end(),
                       [&](const auto& asks) { return asks(inode, tree::kNoSession); });
  }
  [[nodiscard]] std::uint32_t writersOf(tree::InodeId inode) const {
    const auto writing = sessions_.find(inode);
    return writing == sessions_.end() ? 0 : writing->second.writers;
  }

  std::atomic<std::uint64_t> queries{0}, publishes{0}, syncs{0};
  std::atomic<std::int32_t> publishError{0};
  std::atomic<Clock::duration> limit{Clock::duration(std::chrono::minutes(10))};
  std::atomic<Clock::time_point> progress{Clock::time_point()};
  // Changes are executed, and nobody gets their answers.
  std::atomic<bool> keepsAnswers{false};
  std::vector<InheritedWriter> inherited;

 private:
  struct Writing {
    tree::SessionId session = tree::kNoSession;
    tree::ContentVersion base;
    std::uint32_t counter = 0;  // of the last publish
    std::uint32_t chunks = 0;   // used so far
    std::uint64_t published = 0;
    std::uint32_t writers = 0;
  };

  tree::Answer ask(tree::ClientChange change, std::shared_ptr<RequestNote> note = nullptr) {
    tree::Request request = volume_.led.request(client_, std::move(change));
    // The answers of the last requests are kept.
    request.doneBelow = request.id.number - std::min<std::uint64_t>(request.id.number, 500);
    if (note != nullptr) EXPECT_TRUE(note->keep({client_.incarnation, request.id.number}));
    return volume_.led.execute(std::move(request));
  }
  std::optional<tree::Answer> earlier(const std::shared_ptr<RequestNote>& note) {
    const auto asked = note == nullptr ? std::nullopt : note->earlier();
    if (!asked) return std::nullopt;
    tree::Request request = volume_.led.request({client_.agent, asked->incarnation}, {});
    request.id.number = asked->number;
    const tree::Answer answer = volume_.led.execute(std::move(request));
    if (answer.refusal == tree::Refusal::kSuperseded) return std::nullopt;
    return answer;
  }
  [[nodiscard]] std::string path(tree::InodeId inode) const {
    return volume_.folder / (node_ + "-" + std::to_string(static_cast<std::uint64_t>(inode)));
  }
  [[nodiscard]] tree::Attributes withSize(tree::Attributes about) const {
    if (sessions_.contains(about.id)) about.size = sizeOf(path(about.id));
    return about;
  }
  [[nodiscard]] ChangeReply replyTo(const tree::Answer& answer) const {
    ChangeReply reply{.answer = answer};
    if (answer.inode != tree::kNoInode)
      reply.attributes = volume_.led.tree.attributes(answer.inode);
    if (reply.attributes) reply.attributes = withSize(*reply.attributes);
    return reply;
  }

  OpenedVolumeFile write(tree::InodeId inode, bool truncates) {
    const auto granted = ask(tree::OpenForWriting{.inode = inode, .writes = false});
    if (granted.error != 0) return {.error = granted.error};
    if (granted.session == tree::kNoSession) {
      OpenedVolumeFile opened;
      opened.idle = true;
      opened.attributes = *volume_.led.tree.attributes(inode);
      return opened;
    }
    Writing& writing = sessions_[inode];
    if (writing.session != granted.session) {
      writing = {.session = granted.session, .base = granted.content};
      std::ofstream(path(inode), std::ios::binary) << bytesOf(volume_.pathOf(granted.content));
      writing.published = sizeOf(path(inode));
    }
    if (truncates && ::truncate(path(inode).c_str(), 0) != 0) return {.error = errno};
    ++writing.writers;
    OpenedVolumeFile opened;
    opened.attributes = withSize(*volume_.led.tree.attributes(inode));
    opened.version = {writing.session, 0};
    opened.session.reset(::open(path(inode).c_str(), O_RDONLY | O_CLOEXEC));
    return opened;
  }

  [[nodiscard]] bool changed(tree::InodeId inode) const {
    const Writing& writing = sessions_.at(inode);
    return bytesOf(path(inode)) != bytesOf(volume_.pathOf(writing.base));
  }

  tree::Publish makePublish(tree::InodeId inode, bool ends) {
    Writing& writing = sessions_.at(inode);
    const tree::ContentVersion version{writing.session, ++writing.counter};
    std::filesystem::copy_file(path(inode), volume_.pathOf(version));
    tree::Publish publish{.inode = inode, .session = writing.session, .base = writing.base};
    publish.content.version = version;
    publish.content.length = sizeOf(path(inode));
    const auto count = static_cast<std::uint32_t>((publish.content.length + (4U << 20) - 1) >> 22);
    if (count != 0)
      publish.content.runs = {{writing.session, writing.chunks, count, client_.agent}};
    writing.chunks += count;
    publish.usedChunks = writing.chunks;
    publish.ends = ends;
    writing.base = version;
    return publish;
  }

  std::int32_t publishNow(tree::InodeId inode, bool ends) {
    if (!sessions_.contains(inode) || !changed(inode)) return 0;
    return ask(makePublish(inode, ends)).error;
  }

  // The last writer seals: the session file becomes the content, as the same file.
  void end(tree::InodeId inode) {
    const auto found = sessions_.find(inode);
    if (found == sessions_.end() || --found->second.writers != 0) return;
    EXPECT_EQ(publishNow(inode, false), 0);
    const Writing& writing = found->second;
    ask(tree::EndSession{.inode = inode, .session = writing.session, .usedChunks = writing.chunks});
    std::filesystem::rename(path(inode), volume_.pathOf(writing.base));
    sessions_.erase(found);
  }

  TestVolume& volume_;
  Reactor& reactor_;
  const std::string node_;
  const tree::ClientId client_;
  std::map<tree::InodeId, Writing> sessions_;
  std::vector<IsOpen> openFiles_;
};

}  // namespace hearth::volume_testing

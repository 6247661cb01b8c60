// A MountSource over temporary files whose residency the test decides. Bytes are a function of path
// and offset, so that another process makes the same ones.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/owned_fd.h"
#include "fuse/mount_source.h"

namespace hearth::fuse_testing {

inline std::string contentOf(const std::string& path, std::uint64_t size) {
  std::string bytes(size, '\0');
  std::uint64_t state = Sha256::of(std::as_bytes(std::span(path)))[0] + 1;
  for (std::uint64_t i = 0; i < size; ++i) {
    if (i % 8 == 0) state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    bytes[i] = static_cast<char>(state >> (8 * (i % 8)));
  }
  return bytes;
}

// The manifest of `rows`; keys are made from the paths.
inline std::shared_ptr<const Manifest> manifestOf(std::vector<ManifestRow> rows) {
  ManifestBuilder builder(false);
  for (ManifestRow& row : rows) {
    if (row.kind == EntryKind::kFile) {
      row.key.bytes = Sha256::of(std::as_bytes(std::span(row.path)));
    }
    builder.add(row);
  }
  const auto bytes = builder.build();
  if (!bytes.ok()) throw std::runtime_error(bytes.error().message);
  return std::move(Manifest::parse(*bytes)).value();
}

class TestSource final : public MountSource {
 public:
  // Writes the files of `manifest` to `folder`, an existing one of the local disk.
  TestSource(std::shared_ptr<const Manifest> manifest, std::string folder)
      : manifest_(std::move(manifest)), folder_(std::move(folder)) {}
  ~TestSource() override {
    for (std::thread& helper : helpers_) {
      // An answer may have held the last session, and this source by it.
      if (helper.get_id() == std::this_thread::get_id()) {
        helper.detach();
      } else {
        helper.join();
      }
    }
  }

  // Residency of a path: all of it, or nothing.
  void setComplete(const std::string& path, bool complete) {
    const std::lock_guard lock(mutex_);
    files_[*manifest_->lookUp(path)].complete = complete;
  }
  // Reads of missing bytes are answered after `delay`, or never (until answerAll()).
  void setDelay(std::chrono::milliseconds delay) { delay_ = delay; }
  void setNever(bool never) { never_ = never; }
  void answerAll() {
    std::vector<std::function<void()>> waiting;
    {
      const std::lock_guard lock(mutex_);
      waiting.swap(waiting_);
    }
    for (const auto& answer : waiting) answer();
  }
  // Of the reads that wait or waited, those whose reader still waits.
  std::size_t wanted() {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::ranges::count_if(wanted_, [](const auto& wanted) { return wanted(); }));
  }
  std::size_t waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }
  void failReads(ErrorCode code) { failure_ = code; }
  // backing() of a complete file fails once the kernel knows of it.
  void evictBeforeOpen(bool evict) { evict_ = evict; }

  struct Advised {
    std::uint32_t entry;
    Advice advice;
    std::uint64_t reader;
    bool operator==(const Advised&) const = default;
  };
  std::vector<Advised> advices() {
    const std::lock_guard lock(mutex_);
    return advices_;
  }
  std::vector<std::pair<std::uint64_t, std::uint64_t>> hints() {
    const std::lock_guard lock(mutex_);
    return hints_;
  }
  // The entries for which applications got errors, with the codes.
  std::vector<std::pair<std::uint32_t, ErrorCode>> failures() {
    const std::lock_guard lock(mutex_);
    return failures_;
  }
  int openObjects() {
    const std::lock_guard lock(mutex_);
    return openObjects_;
  }

  const Manifest& manifest() const override { return *manifest_; }
  bool complete(std::uint32_t entry) override {
    const std::lock_guard lock(mutex_);
    return files_[entry].complete;
  }
  Result<std::shared_ptr<OpenFile>> openFile(std::uint32_t entry) override {
    const std::lock_guard lock(mutex_);
    makeBytes(entry);
    ++openObjects_;
    return std::shared_ptr<OpenFile>(std::make_shared<Opened>(*this, entry));
  }
  // The bytes of a path were wrong and are other ones from now on.
  void withdraw(const std::string& path, const std::string& bytes) {
    const std::lock_guard lock(mutex_);
    const std::uint32_t entry = *manifest_->lookUp(path);
    const OwnedFd file(open(backingPath(entry).c_str(), O_WRONLY | O_CLOEXEC));
    if (write(file.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      std::abort();
    ++withdrawn_[entry];
  }
  std::uint64_t withdrawn(std::uint32_t entry) override {
    const std::lock_guard lock(mutex_);
    const auto found = withdrawn_.find(entry);
    return found == withdrawn_.end() ? 0 : found->second;
  }
  std::string sourceName() const override { return "test-dataset"; }
  std::uint64_t residentBytes(std::uint32_t entry) override {
    return complete(entry) ? manifest_->entry(entry).size : 0;
  }
  void failed(std::uint32_t entry, const Error& reason) override {
    const std::lock_guard lock(mutex_);
    failures_.emplace_back(entry, reason.code);
  }
  Status advise(std::uint32_t entry, Advice advice, std::uint64_t reader) override {
    if (const ErrorCode code = refusal_; code != ErrorCode::kOk)
      return Error{code, "the test wants no advice"};
    const std::lock_guard lock(mutex_);
    advices_.push_back({entry, advice, reader});
    return {};
  }
  void refuseAdvice(ErrorCode code) { refusal_ = code; }
  // The file that holds an entry's bytes.
  std::string backingPath(std::uint32_t entry) { return folder_ + "/" + std::to_string(entry); }
  void prepare(const std::string& path) {
    const std::lock_guard lock(mutex_);
    makeBytes(*manifest_->lookUp(path));
  }

 private:
  struct Mapping {
    OwnedFd fd;
    std::byte* bytes = nullptr;
    std::uint64_t size = 0;
    ~Mapping() {
      if (bytes != nullptr) munmap(bytes, size);
    }
  };
  struct File {
    bool complete = false;
    std::shared_ptr<Mapping> mapping;
  };

  class Opened final : public OpenFile {
   public:
    Opened(TestSource& owner, std::uint32_t entry)
        : owner_(owner), entry_(entry), mapping_(owner.files_[entry].mapping) {}
    ~Opened() override {
      const std::lock_guard lock(owner_.mutex_);
      --owner_.openObjects_;
    }
    Result<int> backing() override {
      if (owner_.evict_ || !owner_.complete(entry_))
        return Error{ErrorCode::kNotFound, "incomplete"};
      return mapping_->fd.get();
    }
    Result<MappedBytes> tryRead(std::uint64_t offset, std::uint32_t length) override {
      if (!owner_.complete(entry_)) return Error{ErrorCode::kNotFound, "not resident"};
      return MappedBytes{{mapping_->bytes + offset, length}, mapping_, {}, {}};
    }
    void read(std::uint64_t offset, std::uint32_t length,
              std::function<void(Result<MappedBytes>)> answer,
              std::function<bool()> wanted) override {
      // Not `this`: the answer may come after the file was closed.
      auto finish = [&owner = owner_, mapping = mapping_, offset, length,
                     answer = std::move(answer)] {
        if (const ErrorCode code = owner.failure_; code != ErrorCode::kOk) {
          answer(Error{code, "the test wants a failure"});
        } else {
          answer(MappedBytes{{mapping->bytes + offset, length}, mapping, {}, {}});
        }
      };
      const std::lock_guard lock(owner_.mutex_);
      if (owner_.never_) {
        owner_.waiting_.push_back(std::move(finish));
        owner_.wanted_.push_back(std::move(wanted));
        return;
      }
      owner_.helpers_.emplace_back([finish = std::move(finish), delay = owner_.delay_.load()] {
        std::this_thread::sleep_for(delay);
        finish();
      });
    }
    void willNeed(std::uint64_t offset, std::uint64_t length) override {
      const std::lock_guard lock(owner_.mutex_);
      owner_.hints_.emplace_back(offset, length);
    }
    void loadAhead(std::uint64_t, std::uint64_t) override {}

   private:
    TestSource& owner_;
    const std::uint32_t entry_;
    const std::shared_ptr<Mapping> mapping_;
  };

  void makeBytes(std::uint32_t entry) {
    File& file = files_[entry];
    if (file.mapping) return;
    file.mapping = std::make_shared<Mapping>();
    const std::uint64_t size = manifest_->entry(entry).size;
    const std::string path = backingPath(entry);
    if (access(path.c_str(), F_OK) != 0) {
      // Whole or not at all: this process may be killed meanwhile, and the next one takes what it
      // finds.
      const std::string part = path + ".part";
      const std::string bytes = contentOf(manifest_->path(entry), size);
      const OwnedFd out(open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
      if (write(out.get(), bytes.data(), size) != static_cast<ssize_t>(size)) std::abort();
      if (rename(part.c_str(), path.c_str()) != 0) std::abort();
    }
    file.mapping->fd.reset(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    file.mapping->size = size;
    if (size == 0) return;
    void* const mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.mapping->fd.get(), 0);
    if (mapped == MAP_FAILED) std::abort();
    file.mapping->bytes = static_cast<std::byte*>(mapped);
  }

  const std::shared_ptr<const Manifest> manifest_;
  const std::string folder_;
  std::recursive_mutex mutex_;
  std::map<std::uint32_t, File> files_;
  std::map<std::uint32_t, std::uint64_t> withdrawn_;
  std::vector<std::function<void()>> waiting_;
  std::vector<std::function<bool()>> wanted_;  // of these, and of those answered since
  std::vector<std::thread> helpers_;
  std::vector<Advised> advices_;
  std::vector<std::pair<std::uint32_t, ErrorCode>> failures_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> hints_;
  int openObjects_ = 0;
  std::atomic<std::chrono::milliseconds> delay_{std::chrono::milliseconds(0)};
  std::atomic<bool> never_{false};
  std::atomic<bool> evict_{false};
  std::atomic<ErrorCode> failure_{ErrorCode::kOk};
  std::atomic<ErrorCode> refusal_{ErrorCode::kOk};
};

}  // namespace hearth::fuse_testing

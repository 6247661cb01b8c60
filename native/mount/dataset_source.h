// A dataset as a FUSE mount sees it: the engine's side of fuse/mount_source.h. Any thread.
#pragma once

#include <memory>
#include <string>

#include "fuse/mount_source.h"
#include "mount/mount_advice.h"
#include "mount/mount_ports.h"

namespace hearth {

class DatasetSource final : public MountSource {
 public:
  // `allowPassthrough` false: all reads go through the daemon. `ports` must remain live while this
  // object, or a read of its files, is used.
  DatasetSource(const MountPorts& ports, std::shared_ptr<Dataset> dataset, std::string name,
                bool allowPassthrough);
  ~DatasetSource() override;

  const Manifest& manifest() const override { return *dataset_->manifest; }
  bool complete(std::uint32_t entry) override;
  // Passthrough of a smaller file takes longer than to read it.
  static constexpr std::uint64_t kPassthroughFromBytes = 128u << 10;
  bool passesThrough(const ManifestEntry& file) const override {
    return file.size >= kPassthroughFromBytes;
  }
  // Blocks for the shard that owns the file, at most for a few calls on the local disk.
  Result<std::shared_ptr<OpenFile>> openFile(std::uint32_t entry) override;
  // The same of a file of which no mount serves the whole dataset, for coroutines; continues on
  // `back`.
  [[nodiscard]] static Task<Result<std::shared_ptr<OpenFile>>> open(const MountPorts& ports,
                                                                    FileReference file,
                                                                    Reactor& back);
  std::uint64_t withdrawn(std::uint32_t entry) override;
  std::string sourceName() const override { return name_; }
  std::uint64_t residentBytes(std::uint32_t entry) override;
  bool readsThrough() const override { return ThroughReads::lately(*dataset_); }
  void failed(std::uint32_t entry, const Error& reason) override;
  Status advise(std::uint32_t entry, Advice advice, std::uint64_t reader) override;
  [[nodiscard]] const MountAdvice& advice() const { return *advice_; }

 private:
  class Opened;

  const MountPorts& ports_;
  const std::shared_ptr<Dataset> dataset_;
  const std::string name_;
  const bool allowPassthrough_;
  const std::shared_ptr<MountAdvice> advice_;
};

}  // namespace hearth

// The contents of a cache directory after a restart: the replayed log against the files on disk.
// Pure decisions, so that tests reach every case without a disk.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/content_key.h"
#include "cache/residency_record.h"
#include "files/file_system.h"

namespace hearth {

// The claims that remain when all records of the log are applied in order.
class ResidencyImage {
 public:
  struct Claims {
    std::uint64_t size = 0;
    struct Chunk {
      std::vector<std::uint32_t> blockChecksums;
      bool doubtful = false;  // something behind the claim was lost that may have taken it back
    };
    std::map<std::uint32_t, Chunk> chunks;
    std::optional<Sha256Digest> verified;  // the whole file, as RecordType::kVerified says
  };
  void apply(const ResidencyRecord& record);
  [[nodiscard]] const std::unordered_map<ContentKey, Claims, ContentKeyHash>& keys() const {
    return keys_;
  }

 private:
  std::unordered_map<ContentKey, Claims, ContentKeyHash> keys_;
};

// A file under objects/ that has the name of a key; others are left alone.
struct ObjectFile {
  ContentKey key;
  FileInfo info;
};
[[nodiscard]] Task<Result<std::vector<ObjectFile>>> listObjects(FileSystem& files,
                                                                std::string path);

// The file has fewer bytes on the disk than are claimed of it: some of its claims are wrong.
[[nodiscard]] bool hasHoles(const ResidencyImage::Claims& claims, const FileInfo& info);

struct RecoveryPlan {
  std::vector<ObjectFile> restore;  // with what the image claims of them, perhaps nothing
  std::vector<ContentKey> drop;     // claimed, but no longer true
  std::vector<ContentKey> remove;   // files to unlink, after the drops are synced
};
// `keep`: the file stays even when nothing claims it (a published view links it). `known`: another
// cache directory has the key.
[[nodiscard]] RecoveryPlan planRecovery(const ResidencyImage& image,
                                        const std::vector<ObjectFile>& objects,
                                        const std::function<bool(const ContentKey&)>& keep,
                                        const std::function<bool(const ContentKey&)>& known);

}  // namespace hearth

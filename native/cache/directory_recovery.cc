#include "cache/directory_recovery.h"

#include <unordered_set>

#include "cache/directory_layout.h"

namespace hearth {

void ResidencyImage::apply(const ResidencyRecord& record) {
  switch (record.type) {
    case RecordType::kClaim: {
      Claims& claims = keys_[record.key];
      if (claims.size != record.size) claims = {.size = record.size, .chunks = {}};
      claims.chunks[record.chunk] = {.blockChecksums = record.blockChecksums};
      claims.verified.reset();
      return;
    }
    case RecordType::kDrop:
      keys_.erase(record.key);
      return;
    case RecordType::kRetract: {
      const auto found = keys_.find(record.key);
      if (found == keys_.end()) return;
      found->second.chunks.erase(record.chunk);
      found->second.verified.reset();
      if (found->second.chunks.empty()) keys_.erase(found);
      return;
    }
    case RecordType::kVerified: {
      const auto found = keys_.find(record.key);
      if (found == keys_.end() || found->second.size != record.size) return;
      if (found->second.chunks.size() == chunksOf(record.size))
        found->second.verified = record.digest;
      return;
    }
    case RecordType::kDoubt:
      for (auto& [key, claims] : keys_) {
        claims.verified.reset();
        for (auto& [chunk, claim] : claims.chunks) claim.doubtful = true;
      }
      return;
    case RecordType::kAppend:
      return;
  }
}

Task<Result<std::vector<ObjectFile>>> listObjects(FileSystem& files, std::string path) {
  std::vector<ObjectFile> objects;
  for (std::size_t folder = 0; folder < 256; ++folder) {
    const auto entries =
        co_await files.list(path + "/objects/" + folderName(folder), ListDetail::kInfo);
    if (!entries.ok()) co_return entries.error();
    for (const DirectoryEntry& entry : *entries) {
      const auto key = ContentKey::parse(entry.name);
      const bool ours = key && key->bytes[0] == folder && entry.name == key->hex() &&
                        entry.info.kind == FileInfo::Kind::kFile;
      if (ours) objects.push_back({*key, entry.info});
    }
  }
  co_return std::move(objects);
}

bool hasHoles(const ResidencyImage::Claims& claims, const FileInfo& info) {
  std::uint64_t claimed = 0;
  for (const auto& [chunk, claim] : claims.chunks) claimed += chunkLength(claims.size, chunk);
  return info.allocated < claimed;
}

RecoveryPlan planRecovery(const ResidencyImage& image, const std::vector<ObjectFile>& objects,
                          const std::function<bool(const ContentKey&)>& keep,
                          const std::function<bool(const ContentKey&)>& known) {
  RecoveryPlan plan;
  std::unordered_set<ContentKey, ContentKeyHash> restored;
  for (const ObjectFile& object : objects) {
    const auto claims = image.keys().find(object.key);
    const bool claimed = claims != image.keys().end() && claims->second.size == object.info.size;
    if ((claimed || keep(object.key)) && !known(object.key)) {
      plan.restore.push_back(object);
      if (claimed) restored.insert(object.key);
    } else {
      plan.remove.push_back(object.key);
    }
  }
  for (const auto& [key, claims] : image.keys()) {
    if (!restored.contains(key)) plan.drop.push_back(key);
  }
  return plan;
}

}  // namespace hearth

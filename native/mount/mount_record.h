// The record that the holder keeps with a FUSE mount, so that the next engine can serve the mount.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "namespace/ids.h"

namespace hearth {

struct MountRecord {
  Sha256Digest manifest{};
  std::string source;  // "hearth:" and the dataset's id
  bool passthrough = true;
  [[nodiscard]] std::string dataset() const;
  bool operator==(const MountRecord&) const = default;
};

struct VolumeMountRecord {
  tree::WideId volume{};
  std::string source;  // "hearth:volume:" and the volume's name
  bool operator==(const VolumeMountRecord&) const = default;
};

[[nodiscard]] std::string encodeVolumeMountRecord(const VolumeMountRecord& record);
// Nothing for a mount of a dataset.
[[nodiscard]] std::optional<VolumeMountRecord> decodeVolumeMountRecord(std::string_view blob);

[[nodiscard]] std::string encodeMountRecord(const MountRecord& record);
// Nothing for anything that encodeMountRecord() did not make.
[[nodiscard]] std::optional<MountRecord> decodeMountRecord(std::string_view blob);

}  // namespace hearth

// How agents describe entries of a manifest to clients. Pure: any thread.
#pragma once

#include "manifest/manifest.h"
#include "wire/client_message.h"

namespace hearth {

[[nodiscard]] inline ResolvedKind resolvedKind(EntryKind kind) {
  switch (kind) {
    case EntryKind::kFile:
      return ResolvedKind::kFile;
    case EntryKind::kDirectory:
      return ResolvedKind::kFolder;
    case EntryKind::kSymlink:
      return ResolvedKind::kSymlink;
  }
}

[[nodiscard]] inline std::uint64_t resolvedSize(const ManifestEntry& about) {
  return about.kind == EntryKind::kDirectory ? about.childCount : about.size;
}

[[nodiscard]] inline ResolvedPath resolvedPath(const ManifestEntry& about) {
  return {resolvedKind(about.kind), about.executable, resolvedSize(about), about.modifiedNs,
          about.key};
}

}  // namespace hearth

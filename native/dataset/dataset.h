// A manifest that the engine works with, and where its bytes come from. Shared by mounts, warm jobs
// and calls; immutable but for the location cache. Any thread.
//
// Two datasets may have the same manifest, each with credentials of its own. Bytes are shared by
// content key; an origin is only ever read by the locations of the dataset that the reader, mount
// or job names.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "dataset/dataset_sources.h"
#include "dataset/folder_readers.h"
#include "dataset/origin_absence.h"
#include "dataset/origin_turns.h"
#include "manifest/manifest.h"
#include "origin/origin_client.h"
#include "origin/touched_files.h"

namespace hearth {

struct Dataset {
  Dataset(std::shared_ptr<const Manifest> list, std::string name, EventSink events)
      : manifest(std::move(list)), id(std::move(name)), sources(manifest, id, std::move(events)) {}

  const std::shared_ptr<const Manifest> manifest;
  // By which the agent knows whose credentials read the origin; not interpreted here. Empty: of no
  // dataset, for what needs no origin.
  const std::string id;
  DatasetSources sources;
  LocationCache& locations = sources.first();
  OriginTurns originTurns;
  OriginAbsence absence;
  FolderReaders folderReaders;
  // The node whose agent has all bytes, which no origin has; empty: an origin does. Set before the
  // dataset is shared.
  std::string holder;
  const std::shared_ptr<TouchedFiles> touched = std::make_shared<TouchedFiles>();
  // Bytes that came in for readers and could not be kept, and when the last of them did.
  std::atomic<std::uint64_t> throughBytes{0};
  std::atomic<Clock::time_point> throughAt{Clock::time_point::min()};
  // A read has found that the origin no longer has a file as the manifest lists it.
  std::atomic<bool> originLacksFiles{false};
};

// A file that readers have something to read of: readers in order pass over all others.
[[nodiscard]] inline bool hasBytes(const ManifestEntry& entry) {
  return entry.kind == EntryKind::kFile && entry.size != 0;
}

// One file of a dataset, by entry index. `about` points into the manifest that `dataset` keeps.
struct FileReference {
  std::shared_ptr<Dataset> dataset;
  ManifestEntry about;

  [[nodiscard]] static FileReference of(std::shared_ptr<Dataset> dataset, std::uint32_t entry) {
    ManifestEntry about = dataset->manifest->entry(entry);
    return {std::move(dataset), about};
  }
  // Conditions under which the origin's object is still the one in the manifest.
  [[nodiscard]] OriginExpectation expectation() const {
    return {.objectSize = about.objectOffset == 0 ? about.size : 0,
            .validator = std::string(about.validator),
            .touched = dataset->touched,
            .file = about.index};
  }
  // A file of a writable volume: agents have its bytes, and its location names one
  // (Location::node).
  [[nodiscard]] bool isOfVolume() const { return about.validator.starts_with("volume:"); }
  // For messages.
  [[nodiscard]] std::string path() const { return dataset->manifest->path(about.index); }
};

}  // namespace hearth

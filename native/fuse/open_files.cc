#include "fuse/open_files.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace hearth {
namespace {

int errnoOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kPermissionDenied:
      return EACCES;
    case ErrorCode::kCancelled:
      return EINTR;
    default:
      return EIO;
  }
}

}  // namespace

OpenFiles::OpenFiles(MountSource& source, FuseDevice& device, OpenCounts& counts,
                     FuseCounters& counters, std::atomic<bool>& passthrough)
    : source_(source),
      device_(device),
      counts_(counts),
      counters_(counters),
      passthrough_(passthrough) {}

void OpenFiles::inherit() {
  inherited_ = true;
  unrecorded_ = counts_.overflowed();
  const Manifest& manifest = source_.manifest();
  counts_.each([&](std::uint64_t node, const OpenCount& count) {
    const auto id = decodeNodeId(node);
    if (!id || id->entry >= manifest.totals().entries) return;
    File& file = stripeOf(id->entry).files[id->entry];
    file.nodes[node] = count;
    // The kernel still knows this id, and wants no second one for a node that is open with it.
    if (count.passthrough != 0 && file.backingId == 0) file.backingId = count.backingId;
  });
  for (Stripe& stripe : stripes_) {
    for (auto& [entry, file] : stripe.files) {
      // A source that cannot open it now is asked again by the next read.
      if (auto reading = openSource(manifest.entry(entry))) file.reading = std::move(*reading);
    }
  }
}

Result<std::shared_ptr<OpenFiles::Reading>> OpenFiles::openSource(const ManifestEntry& entry) {
  auto file = source_.openFile(entry.index);
  if (!file) return file.error();
  auto reading = std::make_shared<Reading>();
  reading->file = std::move(*file);
  reading->size = entry.size;
  return reading;
}

std::int32_t OpenFiles::backingOf(File& file) {
  if (!passthrough_) return 0;
  if (file.backingId != 0) return file.backingId;
  const Result<int> descriptor = file.reading->file->backing();
  if (!descriptor) return 0;
  const auto id = device_.openBacking(*descriptor);
  if (!id) {
    // The reasons (capabilities, file systems) hold for every file of the mount.
    disablePassthrough(id.error().message);
    return 0;
  }
  return file.backingId = *id;
}

int OpenFiles::open(std::uint64_t node, const ManifestEntry& entry, OpenAnswer& answer) {
  Stripe& stripe = stripeOf(entry.index);
  const std::lock_guard lock(stripe.mutex);
  File& file = stripe.files[entry.index];
  file.evictAtClose.reset();
  if (file.reading == nullptr) {
    auto reading = openSource(entry);
    if (!reading) {
      drop(stripe, entry.index);
      source_.failed(entry.index, reading.error());
      return errnoOf(reading.code());
    }
    file.reading = std::move(*reading);
  }
  const auto known = file.nodes.find(node);
  OpenCount count = known == file.nodes.end() ? OpenCount{} : known->second;
  if (!count.any() && unrecorded_ && isEarlierNodeId(node)) {
    drop(stripe, entry.index);
    return ESTALE;
  }
  if (!count.any() && !unrecorded_) count.backingId = backingOf(file);
  OpenCount direct = count;
  ++direct.passthrough;
  if (count.cached == 0 && count.backingId != 0 && counts_.set(node, direct)) {
    count = direct;
    ++counters_.passthroughOpens;
    answer = {OpenMode::kPassthrough, count.backingId};
  } else {
    ++count.cached;
    counts_.set(node, count);
    ++counters_.daemonOpens;
    answer = openedByDaemon(stripe, node, entry);
  }
  file.nodes[node] = count;
  return 0;
}

// Only what has a digest can be found wrong. What an earlier agent found is not known: after it
// each node is read again once.
OpenAnswer OpenFiles::openedByDaemon(const Stripe& stripe, std::uint64_t node,
                                     const ManifestEntry& entry) {
  if (!entry.sourceDigest.has_value()) return {OpenMode::kDaemon, 0, true, 0};
  const std::uint64_t withdrawn = source_.withdrawn(entry.index);
  const auto dropped = stripe.dropped.find(node);
  const bool keeps = dropped == stripe.dropped.end() ? !inherited_ && withdrawn == 0
                                                     : dropped->second == withdrawn;
  return {OpenMode::kDaemon, 0, keeps, withdrawn};
}

void OpenFiles::pagesDropped(std::uint64_t node, std::uint64_t withdrawn) {
  const auto id = decodeNodeId(node);
  if (!id) return;
  Stripe& stripe = stripeOf(id->entry);
  const std::lock_guard lock(stripe.mutex);
  // Answers may be sent in another order than they were made.
  std::uint64_t& last = stripe.dropped[node];
  last = std::max(last, withdrawn);
}

void OpenFiles::release(std::uint64_t node, OpenMode mode) {
  const auto id = decodeNodeId(node);
  if (!id) return;
  Stripe& stripe = stripeOf(id->entry);
  const std::lock_guard lock(stripe.mutex);
  const auto file = stripe.files.find(id->entry);
  if (file == stripe.files.end()) return;
  const auto open = file->second.nodes.find(node);
  if (open == file->second.nodes.end()) return;
  OpenCount& count = open->second;
  std::uint32_t& opens = mode == OpenMode::kPassthrough ? count.passthrough : count.cached;
  if (opens != 0) --opens;
  counts_.set(node, count);
  if (!count.any()) file->second.nodes.erase(open);
  drop(stripe, id->entry);
}

bool OpenFiles::opensByDaemon(std::uint64_t node) {
  const auto id = decodeNodeId(node);
  if (!id) return false;
  Stripe& stripe = stripeOf(id->entry);
  const std::lock_guard lock(stripe.mutex);
  const auto file = stripe.files.find(id->entry);
  if (file == stripe.files.end()) return unrecorded_;
  const auto open = file->second.nodes.find(node);
  return open == file->second.nodes.end() ? unrecorded_ : open->second.cached != 0;
}

Result<std::shared_ptr<OpenFiles::Reading>> OpenFiles::reading(const ManifestEntry& entry) {
  Stripe& stripe = stripeOf(entry.index);
  const std::lock_guard lock(stripe.mutex);
  const auto file = stripe.files.find(entry.index);
  if (file != stripe.files.end() && file->second.reading != nullptr) return file->second.reading;
  auto reading = openSource(entry);
  if (reading && file != stripe.files.end()) file->second.reading = *reading;
  return reading;
}

bool OpenFiles::dontNeed(std::uint32_t entry, std::uint64_t reader) {
  std::shared_ptr<Reading> last;  // goes after the lock
  Stripe& stripe = stripeOf(entry);
  const std::lock_guard lock(stripe.mutex);
  const auto found = stripe.files.find(entry);
  if (found == stripe.files.end()) return true;
  File& file = found->second;
  OpenCount all;
  for (const auto& [node, count] : file.nodes) {
    all.cached += count.cached;
    all.passthrough += count.passthrough;
  }
  if (all.cached + all.passthrough > 1) return true;  // others', which keep it
  const bool later = all.passthrough != 0;
  file.evictAtClose = later ? std::optional(reader) : std::nullopt;
  if (!later) last = std::move(file.reading);
  return !later;
}

void OpenFiles::willNeed(std::uint32_t entry) {
  Stripe& stripe = stripeOf(entry);
  const std::lock_guard lock(stripe.mutex);
  const auto found = stripe.files.find(entry);
  if (found != stripe.files.end()) found->second.evictAtClose.reset();
}

// Forgets a file that is not open.
void OpenFiles::drop(Stripe& stripe, std::uint32_t entry) {
  const auto file = stripe.files.find(entry);
  if (file == stripe.files.end() || !file->second.nodes.empty()) return;
  if (file->second.backingId != 0) device_.closeBacking(file->second.backingId);
  const std::optional<std::uint64_t> evictAtClose = file->second.evictAtClose;
  stripe.files.erase(file);
  // Advice is only advice: a refusal is not reported.
  if (evictAtClose) {
    [[maybe_unused]] const Status advised = source_.advise(entry, Advice::kDontNeed, *evictAtClose);
  }
}

std::string OpenFiles::passthroughReason() const {
  const std::lock_guard lock(reasonMutex_);
  return reason_;
}

void OpenFiles::disablePassthrough(const std::string& reason) {
  const std::lock_guard lock(reasonMutex_);
  if (reason_.empty()) reason_ = reason;
  passthrough_ = false;
}

}  // namespace hearth

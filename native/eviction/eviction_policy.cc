#include "eviction/eviction_policy.h"

#include <algorithm>
#include <iterator>

namespace hearth {
namespace {

std::uint64_t shareOf(std::uint64_t bytes, double share) {
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * share);
}

}  // namespace

EvictionPolicy::EvictionPolicy(std::uint64_t capacityBytes, EvictionTuning tuning)
    : tuning_(tuning) {
  setCapacity(capacityBytes);
}

void EvictionPolicy::setCapacity(std::uint64_t capacityBytes) {
  probationBytes_ = shareOf(capacityBytes, tuning_.probation);
  rememberedBytes_ = shareOf(capacityBytes, tuning_.remembered);
}

void EvictionPolicy::insert(const ContentKey& key, std::uint64_t bytes) {
  const auto known = byKey_.find(key);
  if (known == byKey_.end()) {
    Queue& probation = queue(Place::kProbation);
    probation.files.push_back({key, bytes, Place::kProbation, 0});
    probation.bytes += bytes;
    byKey_.emplace(key, std::prev(probation.files.end()));
    return;
  }
  const Files::iterator file = known->second;
  Queue& at = queue(file->place);
  at.bytes = at.bytes - file->bytes + bytes;
  file->bytes = bytes;
  if (file->place != Place::kRemembered) return;
  file->uses = 0;
  move(file, Place::kMain);
}

void EvictionPolicy::hit(const ContentKey& key) {
  const auto known = byKey_.find(key);
  if (known == byKey_.end() || known->second->place == Place::kRemembered) return;
  std::uint8_t& uses = known->second->uses;
  uses = std::min<std::uint8_t>(uses + 1, tuning_.maxUses);
}

void EvictionPolicy::remove(const ContentKey& key) {
  const auto known = byKey_.find(key);
  if (known == byKey_.end()) return;
  const Files::iterator file = known->second;
  switch (file->place) {
    case Place::kProbation:
      move(file, Place::kRemembered);
      break;
    case Place::kMain:
      erase(file);
      break;
    case Place::kRemembered:
      return;
  }
  forgetOldest();
}

std::optional<ContentKey> EvictionPolicy::victim(const MayGo& mayGo) {
  const bool probationFirst = queue(Place::kProbation).bytes > probationBytes_;
  const File* next = probationFirst ? nextOnProbation(mayGo) : nextOfMain(mayGo);
  if (next == nullptr) next = probationFirst ? nextOfMain(mayGo) : nextOnProbation(mayGo);
  if (next == nullptr) return std::nullopt;
  return next->key;
}

const EvictionPolicy::File* EvictionPolicy::nextOnProbation(const MayGo& mayGo) {
  const Queue& probation = queue(Place::kProbation);
  for (std::size_t refused = 0; refused < probation.files.size();) {
    const Files::iterator oldest = queue(Place::kProbation).files.begin();
    if (oldest->uses > 0) {
      oldest->uses = 0;
      move(oldest, Place::kMain);
    } else if (mayGo(oldest->key)) {
      return &*oldest;
    } else {
      move(oldest, Place::kProbation);
      ++refused;
    }
  }
  return nullptr;
}

const EvictionPolicy::File* EvictionPolicy::nextOfMain(const MayGo& mayGo) {
  Files& files = queue(Place::kMain).files;
  for (std::size_t refused = 0; refused < files.size();) {
    const Files::iterator oldest = files.begin();
    if (!mayGo(oldest->key)) {
      ++refused;
    } else if (oldest->uses == 0) {
      return &*oldest;
    } else {
      --oldest->uses;
      refused = 0;
    }
    move(oldest, Place::kMain);
  }
  return nullptr;
}

bool EvictionPolicy::contains(const ContentKey& key) const {
  const auto known = byKey_.find(key);
  return known != byKey_.end() && known->second->place != Place::kRemembered;
}

bool EvictionPolicy::usedAgain(const ContentKey& key) const {
  const auto known = byKey_.find(key);
  return known != byKey_.end() && (known->second->place == Place::kMain || known->second->uses > 0);
}

std::size_t EvictionPolicy::files() const {
  return queue(Place::kProbation).files.size() + queue(Place::kMain).files.size();
}

std::uint64_t EvictionPolicy::bytes() const {
  return queue(Place::kProbation).bytes + queue(Place::kMain).bytes;
}

void EvictionPolicy::move(Files::iterator file, Place place) {
  Queue& from = queue(file->place);
  Queue& to = queue(place);
  from.bytes -= file->bytes;
  to.bytes += file->bytes;
  to.files.splice(to.files.end(), from.files, file);
  file->place = place;
}

void EvictionPolicy::erase(Files::iterator file) {
  Queue& at = queue(file->place);
  at.bytes -= file->bytes;
  byKey_.erase(file->key);
  at.files.erase(file);
}

void EvictionPolicy::forgetOldest() {
  Queue& known = queue(Place::kRemembered);
  const std::size_t most = std::max(files(), kMinRemembered);
  while (!known.files.empty() && (known.bytes > rememberedBytes_ || known.files.size() > most))
    erase(known.files.begin());
}

}  // namespace hearth

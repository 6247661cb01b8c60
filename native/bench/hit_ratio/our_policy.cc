#include "bench/hit_ratio/our_policy.h"

namespace hearth::hit_ratio {
namespace {

constexpr int kWordBytes = 8;

// As spread as keys are; the file's number can be read back from it.
ContentKey keyOf(FileId file) {
  ContentKey key;
  const std::uint64_t spread = (std::uint64_t{file} + 1) * 0x9e3779b97f4a7c15;
  for (int i = 0; i < kWordBytes; ++i) {
    key.bytes[i] = static_cast<std::uint8_t>(spread >> (8 * i));
    key.bytes[8 + i] = static_cast<std::uint8_t>(std::uint64_t{file} >> (8 * i));
  }
  return key;
}

FileId fileOf(const ContentKey& key) {
  FileId file = 0;
  for (int i = sizeof file; i-- > 0;) file = (file << 8) | key.bytes[8 + i];
  return file;
}

class Ours final : public ReplacementPolicy {
 public:
  Ours(const ModelTrace& trace, std::uint64_t capacityBytes, EvictionTuning tuning)
      : trace_(trace), policy_(capacityBytes, tuning) {}

  void hit(FileId file) override { policy_.hit(keyOf(file)); }
  void insert(FileId file) override { policy_.insert(keyOf(file), trace_.files[file].bytes); }
  FileId evict() override {
    const ContentKey key = policy_.victim([](const ContentKey&) { return true; }).value();
    policy_.remove(key);
    return fileOf(key);
  }
  // The engine inserts what has landed, then makes room.
  [[nodiscard]] bool mayRefuse() const override { return true; }

 private:
  const ModelTrace& trace_;
  EvictionPolicy policy_;
};

}  // namespace

std::unique_ptr<ReplacementPolicy> makeOurs(const ModelTrace& trace, std::uint64_t capacityBytes,
                                            EvictionTuning tuning) {
  return std::make_unique<Ours>(trace, capacityBytes, tuning);
}

}  // namespace hearth::hit_ratio

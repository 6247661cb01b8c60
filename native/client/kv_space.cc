#include "client/kv_space.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/byte_codec.h"
#include "base/sha256.h"

namespace hearth::gd2fs {
namespace {

// A name of a volume is one of a path.
constexpr std::size_t kMaxVolumeBytes = 255;

std::span<const std::byte> bytesOf(const void* bytes, std::size_t size) {
  return {static_cast<const std::byte*>(bytes), size};
}

bool areSound(const void* bytes, std::size_t size) {
  return size <= HEARTH_KV_MAX_KEY_BYTES && (bytes != nullptr || size == 0);
}

Sha256Digest digestOf(const hearth_kv_item& item) {
  return Sha256::of(bytesOf(item.key, item.key_bytes));
}

bool isHost(const MemorySlice& slice) { return slice.region->isHost(); }

}  // namespace

Result<KeySpace> KvSpace::nameOf(const hearth_kv_space& space) {
  const Error bad{ErrorCode::kInvalidArgument, "this is no key space"};
  if (space.size < sizeof space || space.volume == nullptr || space.fingerprint_bytes == 0)
    return bad;
  if (!areSound(space.fingerprint, space.fingerprint_bytes) ||
      !areSound(space.salt, space.salt_bytes))
    return bad;
  const std::string_view volume(space.volume, strnlen(space.volume, kMaxVolumeBytes + 1));
  const bool isName = !volume.empty() && volume.size() <= kMaxVolumeBytes && volume != "." &&
                      volume != ".." && volume.find('/') == std::string_view::npos;
  if (!isName) return bad;
  // Lengths in front keep a fingerprint that goes on as a salt apart from both.
  ByteWriter spelled;
  spelled.u64(space.fingerprint_bytes);
  spelled.bytes(bytesOf(space.fingerprint, space.fingerprint_bytes));
  spelled.u64(space.salt_bytes);
  spelled.bytes(bytesOf(space.salt, space.salt_bytes));
  return KeySpace{std::string(volume), Sha256::of(spelled.take())};
}

KvSpace::KvSpace(std::shared_ptr<ClientContext> context, KeySpace name)
    : context_(std::move(context)), name_(std::move(name)), process_(getpid()) {}

KvSpace::~KvSpace() {
  if (!isOfThisProcess()) return;
  queue_->cancelAll();
  (void)queue_->drain(Clock::time_point::max());
}

bool KvSpace::isOfThisProcess() const { return getpid() == process_; }

std::shared_ptr<KvBatch> KvSpace::batchOf(const hearth_kv_batch& given) const {
  const Clock::duration timeout =
      given.timeout_ms == 0 ? context_->timeout() : std::chrono::milliseconds(given.timeout_ms);
  return std::make_shared<KvBatch>(queue_, given, Clock::now() + timeout);
}

int KvSpace::gather(const hearth_kv_batch& given, KvBatch& batch, bool puts,
                    std::vector<ObjectTransfer>& into) {
  into.resize(given.count);
  for (std::size_t i = 0; i < given.count; ++i) {
    const hearth_kv_item& item = itemOf(given, i);
    ObjectTransfer& transfer = into[i];
    if (item.sges == nullptr || item.sge_count == 0) return -EINVAL;
    const int bad = context_->gather({item.sges, item.sge_count}, !puts, transfer);
    if (bad != 0) return bad;
    if (puts && transfer.bytes == 0) return -EINVAL;
    if (puts && !std::ranges::all_of(transfer.slices, isHost)) return -EOPNOTSUPP;
    transfer.name = {name_, digestOf(item)};
    for (const std::shared_ptr<IoMemory>& memory : transfer.memory) batch.note(memory);
    if (puts) batch.setBytes(i, transfer.bytes);
  }
  return 0;
}

int KvSpace::put(const hearth_kv_batch* batch) {
  if (const int bad = checkBatch(batch); bad != 0) return bad;
  const std::shared_ptr<KvBatch> own = batchOf(*batch);
  std::vector<ObjectTransfer> transfers;
  if (const int bad = gather(*batch, *own, true, transfers); bad != 0) return bad;
  return context_->putObjects(own, std::move(transfers));
}

int KvSpace::get(const hearth_kv_batch* batch) {
  if (const int bad = checkBatch(batch); bad != 0) return bad;
  const std::shared_ptr<KvBatch> own = batchOf(*batch);
  std::vector<ObjectTransfer> transfers;
  if (const int bad = gather(*batch, *own, false, transfers); bad != 0) return bad;
  return context_->getObjects(own, std::move(transfers));
}

int KvSpace::ask(const hearth_kv_batch* batch, KeysQuestion question) {
  if (const int bad = checkBatch(batch); bad != 0) return bad;
  KeysRequest keys{.space = name_, .keys = {}};
  keys.keys.reserve(batch->count);
  for (std::size_t i = 0; i < batch->count; ++i) {
    const hearth_kv_item& item = itemOf(*batch, i);
    if (item.sge_count != 0) return -EINVAL;
    keys.keys.push_back(digestOf(item));
  }
  return context_->askKeys(batchOf(*batch), std::move(keys), question);
}

}  // namespace hearth::gd2fs

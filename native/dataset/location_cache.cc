#include "dataset/location_cache.h"

#include <algorithm>
#include <chrono>

#include "base/clock.h"

namespace hearth {
namespace {

// A location that ends within this time is not used for a new request.
constexpr std::int64_t kExpiryMarginMs = 30'000;

bool lasts(const Location& location, std::int64_t until) {
  return location.expiresAtMs == 0 || location.expiresAtMs > until;
}

std::int64_t nowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(WallClock::now().time_since_epoch())
      .count();
}

// RFC 3986: unreserved characters stay, '/' separates.
std::string percentEncoded(std::string_view path) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string text;
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~' || c == '/';
    if (plain) {
      text.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      text.push_back('%');
      text.push_back(kDigits[byte >> 4]);
      text.push_back(kDigits[byte & 15]);
    }
  }
  return text;
}

std::string joined(const std::string& base, const std::string& path) {
  return base.empty() || base.back() == '/' ? base + path : base + '/' + path;
}

}  // namespace

struct LocationCache::Waiter {
  explicit Waiter(Reactor& home) : reactor(home), done(home) {}
  Reactor& reactor;
  Event done;
  std::optional<Result<Location>> result;
};

LocationCache::LocationCache(std::shared_ptr<const Manifest> manifest, std::string dataset,
                             EventSink events, std::uint32_t source)
    : manifest_(std::move(manifest)),
      dataset_(std::move(dataset)),
      events_(std::move(events)),
      source_(source) {}

LocationCache::~LocationCache() = default;

void LocationCache::setBase(Location base) {
  std::vector<std::uint32_t> entries;
  {
    const std::lock_guard lock(mutex_);
    base_ = std::move(base);
    version_.fetch_add(1);
    base_->owner = dataset_;
    single_.clear();
    ages_.clear();
    for (const auto& [entry, waiter] : waiting_) entries.push_back(entry);
  }
  for (const std::uint32_t entry : entries) answer(entry, *known(entry));
}

void LocationCache::set(std::uint32_t entry, Location location) {
  location.owner = dataset_;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = single_.find(entry); known != single_.end()) drop(known);
    single_.emplace(entry, Single{location, ages_.insert(ages_.end(), entry)});
    while (single_.size() > kMaxKept) drop(single_.find(ages_.front()));
  }
  answer(entry, std::move(location));
}

void LocationCache::fail(std::uint32_t entry, const Error& error) { answer(entry, error); }

void LocationCache::clear() {
  const std::lock_guard lock(mutex_);
  version_.fetch_add(1);
  base_.reset();
  single_.clear();
  ages_.clear();
}

void LocationCache::sweep() {
  const std::lock_guard lock(mutex_);
  const std::int64_t until = nowMs() + kExpiryMarginMs;
  for (auto place = single_.begin(); place != single_.end();) {
    const auto each = place++;
    if (!lasts(each->second.location, until)) drop(each);
  }
}

std::size_t LocationCache::kept() const {
  const std::lock_guard lock(mutex_);
  return single_.size();
}

void LocationCache::drop(std::unordered_map<std::uint32_t, Single>::iterator place) {
  ages_.erase(place->second.age);
  single_.erase(place);
}

void LocationCache::close(const Error& error) {
  std::vector<std::uint32_t> entries;
  {
    const std::lock_guard lock(mutex_);
    closed_ = error;
    for (const auto& [entry, waiter] : waiting_) entries.push_back(entry);
  }
  for (const std::uint32_t entry : entries) answer(entry, error);
}

void LocationCache::expire(std::uint32_t entry) {
  const std::lock_guard lock(mutex_);
  if (const auto known = single_.find(entry); known != single_.end()) drop(known);
}

bool LocationCache::usable(std::uint32_t entry) const {
  const auto found = single_.find(entry);
  return found != single_.end() && lasts(found->second.location, nowMs() + kExpiryMarginMs);
}

bool LocationCache::lookAhead(std::uint32_t entry) {
  const std::lock_guard lock(mutex_);
  if (base_ || closed_) return false;
  const ReadingOrder::Range range = order_.next(entry);
  const std::uint32_t end = std::min(range.end, manifest_->totals().entries);
  const bool first = pending_.empty() && ahead_.empty();
  for (std::uint32_t each = range.first; each < end; ++each) {
    const ManifestEntry about = manifest_->entry(each);
    if (about.kind != EntryKind::kFile || about.size == 0 || usable(each)) continue;
    if (!waiting_.contains(each)) ahead_.push_back(each);
  }
  return first && !ahead_.empty();
}

std::optional<Location> LocationCache::known(std::uint32_t entry) const {
  const std::lock_guard lock(mutex_);
  if (usable(entry)) return single_.at(entry).location;
  if (!base_) return std::nullopt;
  Location location = *base_;
  const std::string path = manifest_->path(entry);
  if (location.url.empty()) {
    location.path = joined(location.path, path);
  } else {
    location.url = joined(location.url, percentEncoded(path));
  }
  return location;
}

void LocationCache::answer(std::uint32_t entry, const Result<Location>& result) {
  std::vector<std::shared_ptr<Waiter>> waiters;
  {
    const std::lock_guard lock(mutex_);
    const auto [first, last] = waiting_.equal_range(entry);
    for (auto position = first; position != last; ++position) waiters.push_back(position->second);
    waiting_.erase(first, last);
  }
  for (const std::shared_ptr<Waiter>& waiter : waiters) {
    waiter->reactor.post([waiter, result] {
      waiter->result = result;
      waiter->done.set();
    });
  }
}

void LocationCache::askPending() {
  EngineEvent event{.kind = EngineEvent::Kind::kLocations,
                    .manifest = manifest_->digest(),
                    .dataset = dataset_,
                    .source = source_};
  {
    const std::lock_guard lock(mutex_);
    event.entries.swap(pending_);
    event.ahead.swap(ahead_);
  }
  if (!event.entries.empty() || !event.ahead.empty()) events_(std::move(event));
}

std::optional<Location> LocationCache::peek(std::uint32_t entry) {
  std::optional<Location> location = known(entry);
  if (location) return location;
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || waiting_.contains(entry)) return std::nullopt;
    ahead_.push_back(entry);
  }
  askPending();
  return std::nullopt;
}

Task<Result<Location>> LocationCache::find(Reactor& reactor, std::uint32_t entry,
                                           Clock::duration timeout) {
  bool first = lookAhead(entry);
  if (auto location = known(entry)) {
    if (first) askPending();
    co_return std::move(*location);
  }
  const auto waiter = std::make_shared<Waiter>(reactor);
  {
    const std::lock_guard lock(mutex_);
    if (closed_) co_return *closed_;
    const bool asked = waiting_.contains(entry);
    waiting_.emplace(entry, waiter);
    if (!asked) {
      first = first || (pending_.empty() && ahead_.empty());
      pending_.push_back(entry);
    }
  }
  if (first) {
    // One turn later, with what other coroutines of this turn have added.
    co_await reactor.sleep(Clock::duration::zero());
    askPending();
  }
  const bool inTime = co_await waiter->done.waitUntil(Clock::now() + timeout);
  if (inTime) co_return std::move(*waiter->result);
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [&](const auto& pair) { return pair.second == waiter; });
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout).count();
  co_return Error{ErrorCode::kDeadlineExceeded,
                  "the origin's location of " + manifest_->path(entry) +
                      " was not resolved within " + std::to_string(seconds) + " s"};
}

}  // namespace hearth

#include "origin/git_blob.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <memory>

#include "base/back_off.h"
#include "base/clock.h"
#include "origin/tag_of_bytes.h"
#include "origin/url.h"

namespace hearth {
namespace {

constexpr std::string_view kKind = "git:";
constexpr std::size_t kSha1Digits = 40, kSha256Digits = 64;

std::string hex(std::span<const unsigned char> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

Error tooLarge(const std::string& shown) {
  return {ErrorCode::kInvalidArgument,
          shown + ": a file of this size cannot be proved by its git id; list the origin again"};
}

}  // namespace

std::optional<GitBlob> GitBlob::of(std::string_view validator) {
  if (!isGitBlobId(validator)) return std::nullopt;
  const std::string_view id = validator.substr(kKind.size());
  if (id.size() != kSha1Digits && id.size() != kSha256Digits) return std::nullopt;
  if (id.find_first_not_of("0123456789abcdef") != id.npos) return std::nullopt;
  return GitBlob(std::string(id));
}

bool GitBlob::names(std::span<const std::span<std::byte>> bytes) const {
  std::uint64_t size = 0;
  for (const auto& piece : bytes) size += piece.size();
  std::string header = "blob " + std::to_string(size);
  header += '\0';
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(),
                                                                     &EVP_MD_CTX_free);
  const EVP_MD* const kind = id_.size() == kSha1Digits ? EVP_sha1() : EVP_sha256();
  EVP_DigestInit_ex(hash.get(), kind, nullptr);
  EVP_DigestUpdate(hash.get(), header.data(), header.size());
  for (const auto& piece : bytes) EVP_DigestUpdate(hash.get(), piece.data(), piece.size());
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  EVP_DigestFinal_ex(hash.get(), digest.data(), &length);
  return hex(std::span(digest).first(length)) == id_;
}

GitBlobReader::GitBlobReader(Reactor& reactor, Event& cancelled, int attempts,
                             Clock::duration firstBackOff)
    : cancelled_(cancelled), spare_(reactor, 1), attempts_(attempts), firstBackOff_(firstBackOff) {}

Task<Status> GitBlobReader::read(Fetch fetch, Location location, OriginExpectation expectation,
                                 std::uint64_t offset, std::vector<std::span<std::byte>> into,
                                 std::function<void(std::size_t)> filled) {
  const std::string shown = location.url.empty() ? location.path : shownUrl(location.url);
  const std::optional<GitBlob> blob = GitBlob::of(expectation.validator);
  if (!blob) {
    co_return Error{ErrorCode::kInvalidArgument,
                    shown + ": the git id is malformed; list the origin again"};
  }
  if (expectation.objectSize > GitBlob::kMaxBytes) co_return tooLarge(shown);
  std::uint64_t length = 0;
  for (const auto& piece : into) length += piece.size();
  const bool isWhole = offset == 0 && length == expectation.objectSize;
  expectation.validator.clear();
  std::vector<std::byte> spare;
  std::vector<std::span<std::byte>> whole = into;
  if (!isWhole) {
    co_await spare_.acquire(1);
    spare.resize(static_cast<std::size_t>(expectation.objectSize));
    whole = {std::span(spare)};
  }
  Status status;
  DoublingPause pauses(firstBackOff_, std::chrono::seconds(10));
  for (int attempt = 0; attempt < attempts_; ++attempt) {
    Task<Status> fetching = fetch(location, expectation, whole);
    status = co_await fetching;
    if (!status.ok() || blob->names(whole)) break;
    status = Error{ErrorCode::kCorrupt,
                   shown +
                       ": the server sent other bytes than the file's git id names; is a proxy "
                       "in between, or the mirror out of date?"};
    if (location.elsewhere || cancelled_.isSet()) break;
    if (attempt + 1 < attempts_) co_await cancelled_.waitUntil(Clock::now() + pauses.next());
  }
  if (status.ok() && !isWhole) {
    std::span<const std::byte> from(spare);
    from = from.subspan(static_cast<std::size_t>(offset));
    for (const auto& piece : into) {
      std::ranges::copy(from.first(piece.size()), piece.begin());
      from = from.subspan(piece.size());
    }
  }
  if (!isWhole) spare_.release(1);
  if (!status.ok()) co_return status;
  for (std::size_t piece = 0; piece < into.size(); ++piece) filled(piece);
  co_return Status();
}

}  // namespace hearth

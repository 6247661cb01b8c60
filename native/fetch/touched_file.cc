// Compares what is here of a file with the file, after only its time of change has moved.
#include <vector>

#include "fetch/fetch_run.h"

namespace hearth {
namespace {

// Checksums of the blocks of a chunk that is here; none: it is not.
std::vector<std::uint32_t> checksumsHere(const FileFetch& fetch, std::uint32_t chunk) {
  if (fetch.cache->resident(chunk)) return fetch.cache->blockChecksums(chunk);
  const std::shared_ptr<LoadedChunk> loaded = fetch.loaded.find(chunk);
  return loaded == nullptr ? std::vector<std::uint32_t>() : loaded->checksums;
}

}  // namespace

Task<Status> Fetcher::compareTouched(std::shared_ptr<FileFetch> fetch, Error changed) {
  KeyFetch& shared = *fetch->shared;
  TouchedFiles& touched = *fetch->reference.dataset->touched;
  const std::uint32_t file = fetch->reference.about.index;
  const std::optional<std::int64_t> changedNs = touched.noted(file);
  if (!changedNs) co_return changed;
  while (const std::shared_ptr<Event> other = shared.comparing) co_await other->wait();
  if (!touched.isSame(file, *changedNs)) {
    shared.comparing = std::make_shared<Event>(ports_.reactor);
    Task<Status> comparing = equalsOrigin(fetch, *changedNs);
    const Status equal = co_await comparing;
    std::exchange(shared.comparing, nullptr)->set();
    const bool known = equal.ok() || equal.code() == ErrorCode::kOriginChanged;
    if (!known) co_return equal.error();
    touched.judge(file, *changedNs, equal.ok());
  }
  if (touched.isSame(file, *changedNs) == true) co_return Status();
  co_return changed;
}

Task<Status> Fetcher::equalsOrigin(std::shared_ptr<FileFetch> fetch, std::int64_t changedNs) {
  const FileReference& file = fetch->reference;
  // Reads the file as long as it has this time of change.
  OriginExpectation expectation = file.expectation();
  expectation.touched = std::make_shared<TouchedFiles>();
  expectation.touched->judge(expectation.file, changedNs, true);
  std::vector<std::byte> bytes;
  for (std::uint32_t chunk = 0; chunk < fetch->cache->chunkCount(); ++chunk) {
    const std::vector<std::uint32_t> here = checksumsHere(*fetch, chunk);
    if (here.empty()) continue;
    bytes.resize(static_cast<std::size_t>(fetch->chunkSize(chunk)));
    Task<Result<Location>> finding = file.dataset->locations.find(ports_.reactor, file.about.index,
                                                                  LocationCache::kAnswerTimeout);
    Result<Location> location = co_await finding;
    if (!location.ok()) co_return location.error();
    OriginRange range{std::move(*location),
                      expectation,
                      file.about.objectOffset + fetch->chunkOffset(chunk),
                      {std::span(bytes)}};
    std::vector<std::uint32_t> there;
    ByteLanes::Filled filled = [&there](std::size_t, std::vector<std::uint32_t> checksums) {
      there = std::move(checksums);
    };
    Task<Status> fetching = ports_.lanes.fetch(chunk, std::move(range), std::move(filled), nullptr);
    const Status fetched = co_await fetching;
    if (!fetched.ok()) co_return fetched.error();
    if (there != here)
      co_return Error{ErrorCode::kOriginChanged, file.path() + ": its bytes are others"};
  }
  co_return Status();
}

}  // namespace hearth

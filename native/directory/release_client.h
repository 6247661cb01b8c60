// Asking for leave to evict (copy_releases.h), on one shard. Asks the directory of the key alone,
// and briefly, since a reader waits for the room; a stand-in would know less.
#pragma once

#include <map>
#include <random>
#include <string>

#include "directory/copy_releases.h"
#include "directory/directory_client.h"

namespace hearth {

class ReleaseClient {
 public:
  // The directory answers before, for whatever it may wait: CopyReleases::kAnswersIn.
  static constexpr std::chrono::milliseconds kTimeout{1500};
  static_assert(kTimeout > CopyReleases::kAnswersIn);
  static constexpr std::chrono::milliseconds kSilence{500};
  // A directory whose agent cannot be reached, or gives no sign of life, is not asked again before.
  // One that is late is asked: what it waits for concerns one key.
  static constexpr std::chrono::seconds kSilentFor{10};

  // `releases`: for keys of which this agent is the directory; `client` reports what came of it.
  // They must remain live, as what `ports` refers to.
  ReleaseClient(DirectoryPorts ports, CopyReleases& releases, DirectoryClient& client)
      : ports_(ports), releases_(releases), client_(client) {}

  enum class Answer : std::uint8_t {
    kGranted,
    kRefused,
    kUnconfirmed,  // agents that may have it did not say so, or the directory was late
    kUnanswered,   // the directory is away: nothing is known
    kUnsupported,  // it is of a release that knows no leave
  };
  struct Asked {
    Answer answer = Answer::kUnconfirmed;
    std::uint64_t number = 0;  // of the question; 0: none was asked
  };
  // Ends within kTimeout. From here until evicted() or kept() with the number, or the next question
  // for the key, the agent says of itself that it has asked. A key is asked for once at a time.
  // `usedAtMs`: its last use in the cluster as far as is known here.
  [[nodiscard]] Task<Asked> ask(ContentKey key, std::uint64_t size, std::int64_t usedAtMs);
  // The copy that the question was about, if there was one (else 0), is not here any more. There
  // may be another one by now: then the directory hears of that.
  void evicted(const ContentKey& key, std::uint64_t size, std::uint64_t number);
  // It stays.
  void kept(const ContentKey& key, std::uint64_t number);

 private:
  [[nodiscard]] Task<Answer> requestRemote(std::string home, DirectoryRequest request);

  DirectoryPorts ports_;
  CopyReleases& releases_;
  DirectoryClient& client_;
  std::map<std::string, Clock::time_point> silentUntil_;
  // No other process of this agent asks by these numbers. Never 0.
  std::uint64_t requests_ = std::uint64_t{std::random_device()()} << 32;
};

}  // namespace hearth

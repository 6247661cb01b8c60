#include "directory/directory_service.h"

namespace hearth {
namespace {

// An agent that does not answer in this time has no say in the new directory.
constexpr auto kReportTimeout = std::chrono::seconds(2);
constexpr auto kReportSilence = std::chrono::milliseconds(500);
// A directory that was not asked for this long is forgotten; it can be made again.
constexpr auto kIdleDirectory = std::chrono::minutes(5);
constexpr auto kDirectorySweep = std::chrono::seconds(30);

RequestTimeouts reportTimeouts() { return {Clock::now() + kReportTimeout, kReportSilence}; }

}  // namespace

struct DirectoryService::Entry {
  explicit Entry(const DirectoryPorts& ports)
      : directory([&view = ports.view](const std::string& asker, const std::string& holder) {
          return view->distance(asker, holder);
        }),
        built(ports.reactor) {}
  KeyDirectory directory;
  Event built;
  Clock::time_point lastUse = Clock::now();
};

DirectoryService::DirectoryService(DirectoryPorts ports)
    : ports_(ports), nextSweep_(Clock::now() + kDirectorySweep) {}
DirectoryService::~DirectoryService() = default;

Task<std::shared_ptr<DirectoryService::Entry>> DirectoryService::entryOf(DirectoryRequest request) {
  forgetIdle();
  std::shared_ptr<Entry> entry = entries_[request.key];
  if (entry == nullptr) {
    entry = std::make_shared<Entry>(ports_);
    entries_[request.key] = entry;
    co_await build(entry, request);
  } else {
    co_await entry->built.wait();
  }
  entry->lastUse = Clock::now();
  co_return entry;
}

Task<LocateAnswer> DirectoryService::locate(std::string node, DirectoryRequest request) {
  const std::shared_ptr<Entry> entry = co_await entryOf(request);
  LocateAnswer answer = entry->directory.locate(node, request.stripe, request.chunks,
                                                request.intent, request.failure, entry->lastUse);
  for (std::string& suspect : entry->directory.suspects(entry->lastUse))
    ports_.gate.spawn(askSuspect(std::move(suspect), request, entry));
  co_return answer;
}

Task<void> DirectoryService::build(std::shared_ptr<Entry> entry, DirectoryRequest request) {
  entry->directory.report(ports_.self, ports_.chunks.report(request.key), Clock::now());
  const std::vector<std::string> others = ports_.view->readyOthers();
  if (!others.empty()) {
    Gate asking(ports_.reactor);
    for (const std::string& node : others) asking.spawn(askOne(node, request, entry));
    co_await asking.close();
  }
  entry->built.set();
}

Task<std::optional<AgentReport>> DirectoryService::partOf(std::string node,
                                                          DirectoryRequest request,
                                                          RequestTimeouts timeouts) {
  if (node == ports_.self) {
    if (request.leave) ports_.chunks.noteUse(request.key, request.leave->usedAtMs);
    co_return ports_.chunks.report(request.key);
  }
  ControlMessage query{static_cast<std::uint16_t>(DirectoryMessage::kQuery), encode(request)};
  const Result<ControlMessage> answer =
      co_await ports_.transport.call(node, std::move(query), timeouts);
  if (!answer.ok()) co_return std::nullopt;
  co_return decodeAgentReport(answer->body);
}

Task<void> DirectoryService::askOne(std::string node, DirectoryRequest request,
                                    std::shared_ptr<Entry> entry) {
  const std::optional<AgentReport> report = co_await partOf(node, request, reportTimeouts());
  if (report) {
    entry->directory.report(node, *report, Clock::now());
  } else {
    ports_.counters.unanswered.fetch_add(1, std::memory_order_relaxed);
  }
}

Task<void> DirectoryService::askSuspect(std::string node, DirectoryRequest request,
                                        std::shared_ptr<Entry> entry) {
  const Clock::time_point asked = Clock::now();
  const std::optional<AgentReport> report = co_await partOf(node, request, reportTimeouts());
  if (report) {
    entry->directory.correct(node, *report, asked);
  } else {
    entry->directory.unanswered(node, Clock::now());
  }
}

void DirectoryService::apply(const std::string& node, const DirectoryUpdate& update) {
  const DirectoryRequest& request = update.request;
  const auto entry = entries_.find(request.key);
  if (entry == entries_.end()) return;
  KeyDirectory& directory = entry->second->directory;
  switch (update.type) {
    case DirectoryMessage::kHave:
      return directory.have(node, request.stripe, request.chunks, Clock::now());
    case DirectoryMessage::kGiveUp:
      return directory.giveUp(node, request.stripe, request.chunks);
    case DirectoryMessage::kDropped:
      return directory.dropped(node);
    case DirectoryMessage::kLocate:
    case DirectoryMessage::kQuery:
    case DirectoryMessage::kAwait:
    case DirectoryMessage::kUpdates:
    case DirectoryMessage::kRelease:
      return;  // requests, and no updates
  }
}

Task<DirectoryService::Holders> DirectoryService::holders(DirectoryRequest request,
                                                          std::string node, std::size_t count,
                                                          Clock::time_point until) {
  forgetIdle();
  if (!entries_.contains(request.key)) {
    // Callers wait until the directory of a key is made.
    if (ports_.gate.closed()) co_return Holders();
    const auto fresh = std::make_shared<Entry>(ports_);
    entries_[request.key] = fresh;
    ports_.gate.spawn(build(fresh, request));
  }
  const std::shared_ptr<Entry> entry = entries_.at(request.key);
  Holders known;
  known.complete = co_await entry->built.waitUntil(until) || entry->built.isSet();
  entry->lastUse = Clock::now();
  known.nodes = entry->directory.holders(node, count, Clock::now());
  std::erase_if(known.nodes, [this](const std::string& other) {
    return other != ports_.self && !ports_.view->ready(other);
  });
  co_return known;
}

void DirectoryService::correct(const ContentKey& key, const std::string& node,
                               const AgentReport& report, Clock::time_point asked) {
  const auto entry = entries_.find(key);
  if (entry != entries_.end()) entry->second->directory.correct(node, report, asked);
}

void DirectoryService::gone(const std::string& node) {
  for (const auto& [key, entry] : entries_) entry->directory.gone(node);
}

void DirectoryService::forgetIdle() {
  const Clock::time_point now = Clock::now();
  if (now < nextSweep_) return;
  nextSweep_ = now + kDirectorySweep;
  std::erase_if(entries_, [&](const auto& entry) {
    return entry.second->built.isSet() && now - entry.second->lastUse > kIdleDirectory;
  });
}

}  // namespace hearth

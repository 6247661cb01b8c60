#include "directory/directory_service.h"

namespace hearth {
namespace {

// An agent that does not answer in this time has no say in the new directory.
constexpr auto kReportTimeout = std::chrono::seconds(2);
constexpr auto kReportSilence = std::chrono::milliseconds(500);
// A directory that was not asked for this long is forgotten; it can be made again.
constexpr auto kIdleDirectory = std::chrono::minutes(5);
constexpr auto kDirectorySweep = std::chrono::seconds(30);

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

Task<LocateAnswer> DirectoryService::locate(std::string node, DirectoryRequest request) {
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
                                                          DirectoryRequest request) {
  if (node == ports_.self) co_return ports_.chunks.report(request.key);
  ControlMessage query{static_cast<std::uint16_t>(DirectoryMessage::kQuery), encode(request)};
  const Result<ControlMessage> answer = co_await ports_.transport.call(
      node, std::move(query), RequestTimeouts(Clock::now() + kReportTimeout, kReportSilence));
  if (!answer.ok()) co_return std::nullopt;
  co_return decodeAgentReport(answer->body);
}

Task<void> DirectoryService::askOne(std::string node, DirectoryRequest request,
                                    std::shared_ptr<Entry> entry) {
  const std::optional<AgentReport> report = co_await partOf(node, request);
  if (report) {
    entry->directory.report(node, *report, Clock::now());
  } else {
    ports_.counters.unanswered.fetch_add(1, std::memory_order_relaxed);
  }
}

Task<void> DirectoryService::askSuspect(std::string node, DirectoryRequest request,
                                        std::shared_ptr<Entry> entry) {
  const Clock::time_point asked = Clock::now();
  const std::optional<AgentReport> report = co_await partOf(node, request);
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
      return;  // requests, and no updates
  }
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

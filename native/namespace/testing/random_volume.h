// Drives a leader, a follower that has only the bytes of its records, and the plain model through
// random changes, and compares all of them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/crc32c.h"
#include "namespace/testing/random_requests.h"

namespace hearth::tree {

class RandomVolume {
 public:
  explicit RandomVolume(std::uint64_t seed)
      : model_(options(), kBegin), requests_(seed, model_), leader_(make()), follower_(make()) {
    takeOffice();
    limit();
    for (const char* const node : {"a", "b"}) join(node);
  }

  // `everyRecord`: compares after each record what otherwise is compared now and then.
  void run(std::uint64_t changes, bool everyRecord) {
    for (std::uint64_t i = 0; i < changes && !::testing::Test::HasFailure(); ++i) {
      step();
      if (everyRecord || requests_.oneIn(200)) compareFollower();
      if (everyRecord || requests_.oneIn(100)) compareModel();
      if (requests_.oneIn(200)) mergeCheckpoint();
      if (requests_.oneIn(500)) changeLeader();
    }
    compareFollower();
    compareModel();
    mergeCheckpoint();
  }
  // Every prefix of the log gives the tree that the leader had then.
  void replayPrefixes() {
    auto replayed = make();
    for (std::size_t i = 0; i < log_.size(); ++i) {
      const ParsedRecord parsed = parseRecord(log_[i]);
      ASSERT_EQ(parsed.kind, Parse::kGood);
      ASSERT_TRUE(replayed->apply(parsed.record).ok());
      if (const auto known = checksums_.find(i + 1); known != checksums_.end()) {
        ASSERT_EQ(checksumOf(*replayed), known->second) << "after record " << i + 1;
      }
    }
  }
  // Each kind of answer that a change had: index in ClientChange, errno, refusal.
  using Seen = std::set<std::tuple<std::size_t, std::int32_t, Refusal>>;
  [[nodiscard]] const Seen& seen() const { return seen_; }

 private:
  static constexpr std::int64_t kBegin = 1000;
  struct Agent {
    ClientId client;
    std::uint64_t next = 1;
    std::uint64_t doneBelow = 1;
    std::map<std::uint64_t, std::pair<Request, Namespace::Outcome>> asked;
  };

  static NamespaceOptions options() {
    return {.store = {1}, .volume = {2}, .maxFileLinks = 3, .maxFolderLinks = 5};
  }
  static std::unique_ptr<Namespace> make() { return std::make_unique<Namespace>(options()); }
  static Bytes checkpointOf(const Namespace& tree) {
    Bytes bytes;
    tree.checkpoint(bytes);
    return bytes;
  }
  static std::uint32_t checksumOf(const Namespace& tree) { return crc32c(checkpointOf(tree)); }

  void keep(const Record& record) {
    Bytes bytes;
    appendRecord(bytes, record);
    ASSERT_LE(bytes.size(), kMaxRecordBytes);
    ASSERT_EQ(record.number, log_.size() + 1);
    log_.push_back(bytes);
    const ParsedRecord parsed = parseRecord(bytes);
    ASSERT_EQ(parsed.kind, Parse::kGood);
    ASSERT_EQ(parsed.record, record);
    ASSERT_TRUE(follower_->apply(parsed.record).ok());
  }
  void takeOffice() {
    now_ += 10;
    const auto record = leader_->lead(++epoch_, log_.empty() ? kBegin : now_);
    ASSERT_TRUE(record.ok());
    keep(*record);
  }
  void changeLeader() {
    if (requests_.oneIn(2)) {
      std::swap(leader_, follower_);
    } else {
      auto loaded = make();
      load(*loaded, checkpointOf(*leader_));
      leader_ = std::move(loaded);
    }
    takeOffice();
  }
  // The next incarnation of the node's agent, which may repeat what the last one has sent.
  void join(const std::string& node) {
    WideId incarnation{};
    incarnation[0] = ++incarnations_;
    const auto outcome = leader_->decide(Join{node, incarnation}, now_);
    ASSERT_EQ(outcome.answer.error, 0);
    keep(*outcome.log);
    agents_.push_back({.client = outcome.answer.holder});
    model_.join(outcome.answer.holder);
    ASSERT_FALSE(leader_->decide(Join{node, incarnation}, now_).log);
  }

  void step() {
    now_ += static_cast<std::int64_t>(requests_.below(5));
    switch (requests_.below(60)) {
      case 0:
        return forget();
      case 1:
        return collect();
      case 2:
        return limit();
      case 3:
        return evict();
      case 7:
        if (incarnations_ < 200 && requests_.oneIn(5)) join(requests_.oneIn(2) ? "a" : "b");
        return;
      case 4:
        return askUnexecuted();
      case 5:
      case 6:
        return repeat();
      default:
        return change();
    }
  }
  Agent& anyAgent() {
    // The last ones are those that run.
    const std::size_t recent = std::min<std::size_t>(agents_.size(), 3);
    return agents_[agents_.size() - 1 - requests_.below(recent)];
  }

  void change() {
    Agent& agent = anyAgent();
    Request request{.id = {agent.client, agent.next++}, .epoch = epoch_, .nowNs = now_};
    request.doneBelow = agent.doneBelow;
    request.change = requests_.change(agent.client);
    if (!model_.isCurrent(agent.client)) return expectRefused(request, Refusal::kSuperseded);
    const auto outcome = leader_->execute(request);
    ASSERT_TRUE(outcome.log);
    ASSERT_FALSE(outcome.repeated);
    keep(*outcome.log);
    freshIds(outcome.answer);
    const Answer expected = model_.perform(agent.client, now_, request.change, outcome.answer);
    ASSERT_EQ(outcome.answer.error, expected.error) << "change " << request.change.index();
    ASSERT_EQ(outcome.answer.refusal, expected.refusal) << "change " << request.change.index();
    ASSERT_EQ(outcome.answer, expected) << "change " << request.change.index();
    seen_.insert({request.change.index(), expected.error, expected.refusal});
    agent.asked[request.id.number] = {request, outcome};
    if (agent.asked.size() > requests_.below(200)) {
      agent.doneBelow = agent.asked.begin()->first + requests_.below(agent.asked.size() + 1);
      agent.asked.erase(agent.asked.begin(), agent.asked.lower_bound(agent.doneBelow));
    }
  }
  // Ids that are granted were never granted before, to another file or session.
  void freshIds(const Answer& answer) {
    if (answer.error != 0) return;
    if (answer.created) {
      ASSERT_TRUE(inodes_.insert(answer.inode).second);
    }
    if (answer.session != kNoSession && !model_.sessions.contains(answer.session)) {
      ASSERT_TRUE(sessions_.insert(answer.session).second);
    }
  }
  // A change that was asked for already, perhaps of another leader: the same answer, and nothing is
  // executed.
  void repeat() {
    Agent& agent = anyAgent();
    if (agent.asked.empty()) return;
    auto at = agent.asked.begin();
    std::advance(at, requests_.below(agent.asked.size()));
    auto [request, first] = at->second;
    request.epoch = epoch_;
    request.doneBelow = agent.doneBelow;
    const auto again = leader_->execute(request);
    ASSERT_EQ(again.answer, first.answer);
    ASSERT_EQ(again.record, first.record);
    ASSERT_TRUE(again.repeated);
    ASSERT_FALSE(again.log);
  }
  void askUnexecuted() {
    Agent& agent = anyAgent();
    Request request{.id = {agent.client, agent.next}, .epoch = epoch_, .nowNs = now_};
    request.doneBelow = agent.doneBelow;
    request.change = requests_.change(agent.client);
    Request other = request;
    other.epoch = epoch_ - 1;
    expectRefused(other, Refusal::kNotLeading);
    other = request;
    other.id.client.incarnation[1] = 1;
    expectRefused(other, Refusal::kUnknownClient);
    other = request;
    other.doneBelow = agent.next + 1;
    expectRefused(other, Refusal::kForgotten);
    other = request;
    other.id.number += kMaxKeptResults;
    expectRefused(other, Refusal::kTooFar);
  }
  void expectRefused(const Request& request, Refusal refusal) {
    const auto outcome = leader_->execute(request);
    ASSERT_EQ(outcome.answer.refusal, refusal);
    ASSERT_FALSE(outcome.log);
    ASSERT_EQ(outcome.record, 0u);
  }

  void forget() {
    const InodeId inode = requests_.anyInode();
    const auto outcome = leader_->decide(Forget{inode}, now_);
    if (!model_.nodes.contains(inode)) {
      ASSERT_EQ(outcome.answer.error, ESTALE);
    } else if (model_.links(inode) != 0) {
      ASSERT_EQ(outcome.answer.error, EINVAL);
    } else {
      ASSERT_EQ(outcome.answer.error, 0);
      keep(*outcome.log);
      model_.forget(inode);
    }
  }
  void evict() {
    const InodeId inode = requests_.anyInode();
    const Tree::Node* const node = leader_->tree().find(inode);
    const bool known = node == nullptr || leader_->tree().soleEntry(*node) != nullptr;
    const auto outcome = leader_->decide(Evict{inode}, now_);
    const std::int32_t expected = model_.evictError(inode);
    ASSERT_EQ(outcome.answer.error, expected == 0 && !known ? EBUSY : expected);
    if (outcome.answer.error != 0) return;
    keep(*outcome.log);
    model_.evict(inode, now_);
  }
  void collect() {
    Collected change;
    for (const auto& [id, garbage] : leader_->tree().garbage()) {
      if (!requests_.oneIn(2)) continue;
      change.ids.push_back(id);
      for (const ChunkRun& run : garbage.runs) collected_.push_back(run);
    }
    const auto outcome = leader_->decide(change, now_);
    ASSERT_EQ(outcome.answer.error, 0);
    if (outcome.log) keep(*outcome.log);
  }
  void limit() {
    const std::uint64_t bytes = requests_.oneIn(2) ? requests_.below(20) * kChunkBytes : 0;
    const std::uint64_t inodes = 10 + requests_.below(30);
    const auto outcome = leader_->decide(SetLimits{bytes, inodes}, now_);
    keep(*outcome.log);
    model_.maxBytes = bytes;
    model_.maxInodes = inodes;
  }

  void compareFollower() {
    const Bytes bytes = checkpointOf(*leader_);
    ASSERT_EQ(bytes, checkpointOf(*follower_));
    checksums_[leader_->lastRecord()] = crc32c(bytes);
  }
  static void load(Namespace& into, const Bytes& bytes) {
    CheckpointReader reader;
    reader.feed(bytes);
    auto step = reader.next();
    for (; step == CheckpointReader::Step::kItem; step = reader.next()) {
      ASSERT_TRUE(into.load(reader.item()).ok());
    }
    ASSERT_EQ(step, CheckpointReader::Step::kEnd);
    ASSERT_TRUE(into.loaded(reader.head()).ok());
  }
  // The last checkpoint and the records since give the one that the tree gives.
  void mergeCheckpoint() {
    RecordsSince since;
    if (log_.size() == checkpointed_) return;
    for (std::size_t i = checkpointed_; i < log_.size(); ++i) {
      ASSERT_TRUE(since.add(parseRawRecord(log_[i])).ok());
    }
    Bytes merged;
    CheckpointMerge merge(std::move(since), merged);
    if (checkpoint_.empty()) {
      ASSERT_EQ(merge.finishWithoutOld(), CheckpointReader::Step::kEnd);
    } else {
      auto step = CheckpointReader::Step::kMore;
      for (std::size_t at = 0; at < checkpoint_.size();) {
        ASSERT_EQ(step, CheckpointReader::Step::kMore);
        const std::size_t size = std::min(checkpoint_.size() - at, requests_.below(5000));
        step = merge.feed(std::span(checkpoint_).subspan(at, size));
        at += size;
      }
      ASSERT_EQ(step, CheckpointReader::Step::kEnd);
    }
    ASSERT_EQ(merged, checkpointOf(*leader_));
    checkpoint_ = std::move(merged);
    checkpointed_ = log_.size();
  }

  void compareModel() {
    ASSERT_EQ(leader_->usage().inodes, model_.nodes.size());
    ASSERT_EQ(leader_->usage().bytes, model_.bytes());
    std::set<InodeId> orphans;
    for (const auto& [inode, node] : model_.nodes) {
      compareNode(inode, node);
      if (model_.links(inode) == 0) orphans.insert(inode);
    }
    ASSERT_EQ(leader_->tree().orphans(), orphans);
    compareGarbage();
  }
  void compareNode(InodeId inode, const PlainNode& node) {
    const auto found = leader_->attributes(inode);
    ASSERT_TRUE(found);
    Inode stat = node.stat;
    stat.links = model_.links(inode);
    stat.version = found->inode.version;
    ASSERT_EQ(found->inode, stat);
    ASSERT_LE(stat.version, leader_->lastRecord());
    ASSERT_EQ(found->content, node.version);
    ASSERT_EQ(found->size, stat.kind == Kind::kSymlink ? node.target.size() : node.length);
    ASSERT_EQ(leader_->target(inode) == nullptr ? "" : *leader_->target(inode), node.target);
    const auto* const session = leader_->session(inode);
    ASSERT_EQ(session != nullptr, node.session.has_value());
    if (session != nullptr) {
      ASSERT_EQ(*session, *node.session);
    }
    std::map<std::string, std::string> xattrs;
    for (const auto& name : leader_->xattrs(inode)) xattrs[name] = *leader_->xattr(inode, name);
    ASSERT_EQ(xattrs, node.xattrs);
    if (stat.kind == Kind::kFolder) compareFolder(inode, node);
  }
  void compareFolder(InodeId inode, const PlainNode& node) {
    std::map<std::string, InodeId> entries;
    std::uint64_t after = 0;
    for (bool more = true; more;) {
      const Listing page = leader_->list(inode, after, 2);
      more = page.more;
      for (const auto& item : page.items) {
        ASSERT_GT(item.cookie, after);
        after = item.cookie;
        ASSERT_TRUE(entries.emplace(item.name, item.inode).second);
        ASSERT_EQ(item.kind, model_.nodes.at(item.inode).stat.kind);
        ASSERT_EQ(leader_->lookUp(inode, item.name).inode, item.inode);
        if (item.kind == Kind::kFolder) {
          ASSERT_EQ(leader_->parentOf(item.inode), inode);
        }
      }
    }
    ASSERT_EQ(entries, node.entries);
    ASSERT_EQ(leader_->lookUp(inode, "absent").error, ENOENT);
  }
  // Chunks of an ended session are garbage unless a file names them or they were collected; no
  // other chunk is.
  void compareGarbage() {
    std::set<std::pair<SessionId, std::uint32_t>> covered;
    const auto cover = [&](const ChunkRun& run) {
      for (std::uint32_t i = 0; i < std::min(run.count, kProbe); ++i) {
        covered.insert({run.session, run.first + i});
      }
    };
    for (const auto& [id, garbage] : leader_->tree().garbage()) {
      ASSERT_LE(id.record, leader_->lastRecord());
      for (const ChunkRun& run : garbage.runs) cover(run);
    }
    for (const ChunkRun& run : collected_) cover(run);
    const auto allNamed = model_.namedChunks();
    for (const auto& [id, session] : model_.sessions) {
      for (std::uint32_t chunk = 0; chunk < kProbe; ++chunk) {
        const bool named = allNamed.contains({id, chunk});
        const bool garbage = session.ended && chunk < session.used && !named;
        ASSERT_EQ(covered.contains({id, chunk}), garbage) << static_cast<std::uint64_t>(id);
        const Naming naming = leader_->naming(session.file, id, chunk);
        ASSERT_EQ(naming == Naming::kNamed, named || !session.ended);
      }
    }
    forgetSessions(covered);
  }
  // Keeps comparisons short: a session all of whose chunks are garbage says nothing more.
  void forgetSessions(const std::set<std::pair<SessionId, std::uint32_t>>& covered) {
    std::erase_if(model_.sessions, [&](const auto& known) {
      const auto& [id, session] = known;
      if (!session.ended || model_.sessions.size() < 30) return false;
      for (std::uint32_t chunk = 0; chunk < std::min(kProbe, session.used); ++chunk) {
        if (!covered.contains({id, chunk})) return false;
      }
      return true;
    });
    std::erase_if(collected_,
                  [&](const ChunkRun& run) { return !model_.sessions.contains(run.session); });
  }

  static constexpr std::uint32_t kProbe = 12;

  PlainModel model_;
  RandomRequests requests_;
  std::unique_ptr<Namespace> leader_, follower_;
  std::uint64_t epoch_ = 0;
  std::int64_t now_ = kBegin;
  std::uint8_t incarnations_ = 0;
  std::vector<Agent> agents_;
  std::vector<Bytes> log_;
  std::map<std::uint64_t, std::uint32_t> checksums_;
  Bytes checkpoint_;
  std::size_t checkpointed_ = 0;
  std::set<InodeId> inodes_;
  std::set<SessionId> sessions_;
  std::vector<ChunkRun> collected_;
  Seen seen_;
};

}  // namespace hearth::tree

// A namespace with its leader and clients, for tests that speak of single changes.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "namespace/namespace.h"

namespace hearth::tree {

class LedNamespace {
 public:
  explicit LedNamespace(NamespaceOptions options = {.store = {1}, .volume = {2}}) : tree(options) {
    keep(*tree.lead(1, 0));
  }

  ClientId join(const std::string& node, std::uint8_t incarnation = 1) {
    return decide(Join{node, {incarnation}}).holder;
  }
  Request request(const ClientId& client, ClientChange change) {
    return {.id = {client, ++numbers_},
            .epoch = tree.epoch(),
            .nowNs = ++now,
            .change = std::move(change)};
  }
  Answer ask(const ClientId& client, ClientChange change) {
    return execute(request(client, std::move(change)));
  }
  Answer execute(Request request) {
    // The client has had all answers of requests that a test does not repeat.
    auto outcome = tree.execute(request);
    if (outcome.log) keep(*outcome.log);
    return outcome.answer;
  }
  Answer decide(LeaderChange change) {
    auto outcome = tree.decide(change, ++now);
    if (outcome.log) keep(*outcome.log);
    return outcome.answer;
  }
  void keep(const Record& record) { log.push_back(record); }

  // A file of `chunks` whole chunks with one publish, closed.
  InodeId file(const ClientId& client, const Place& place, std::uint32_t chunks) {
    const Answer made = ask(client, Create{.place = place, .opens = true});
    EXPECT_EQ(made.error, 0);
    EXPECT_EQ(ask(client, publishOf(client, made, chunks)).error, 0);
    return made.inode;
  }
  // The first publish of a session that was granted by `granted`, of new chunks only.
  static Publish publishOf(const ClientId& client, const Answer& granted, std::uint32_t chunks,
                           bool ends = true) {
    Publish change{.inode = granted.inode, .session = granted.session, .base = granted.content};
    change.content.version = {granted.session, 1};
    change.content.length = std::uint64_t{chunks} << 22;
    if (chunks != 0) change.content.runs = {{granted.session, 0, chunks, client.agent}};
    change.usedChunks = chunks;
    change.ends = ends;
    return change;
  }
  std::vector<ChunkRun> garbage() const {
    std::vector<ChunkRun> runs;
    for (const auto& [id, garbage] : tree.tree().garbage()) {
      runs.insert(runs.end(), garbage.runs.begin(), garbage.runs.end());
    }
    return runs;
  }

  Namespace tree;
  std::vector<Record> log;
  std::int64_t now = 0;

 private:
  std::uint64_t numbers_ = 0;
};

inline Place inRoot(std::string name) { return {kRootInode, std::move(name)}; }

}  // namespace hearth::tree

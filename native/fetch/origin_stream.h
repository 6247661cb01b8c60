// One request for all of an object, whose body the runs of a file take one after the other. A
// server gives a whole object with less work than parts of it (sendfile), and the runs still ask
// for their grants and their memory one by one, just before their bytes come.
//
// Losing a stream costs a request, never a file: the runs that it does not serve ask the origin by
// themselves, and it is they who report errors. So a stream ends whenever it is not exactly what is
// wanted next: a run came from elsewhere, none came for kLongestPause, or its server is slow.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "dataset/dataset.h"
#include "fetch/buffer_pool.h"
#include "fetch/byte_lanes.h"
#include "fetch/file_fetch.h"
#include "origin/piece_sink.h"
#include "reactor/synchronization.h"

namespace hearth {

// On the key's shard. The last reference may go on its lane's thread once it is over.
class OriginStream : public std::enable_shared_from_this<OriginStream> {
 public:
  // So long nothing is asked of it before it ends. Shorter than servers keep a connection that
  // takes nothing, and than a transfer may stall (OriginOptions::stallTimeout).
  static constexpr auto kLongestPause = std::chrono::seconds(1);

  // What it uses of its shard. All of it lives longer.
  struct Ports {
    Reactor& reactor;
    Gate& gate;  // background coroutines
    const ByteLanes& lanes;
    const BufferPool& buffers;  // of which the chunks are
  };
  // Of a file that is all of its origin's object, of a dataset with one source. Asks for nothing
  // before the first take(). `lane`: its number of ByteLanes::stream.
  OriginStream(Ports ports, FileReference file, std::size_t lane);

  // It brings what begins with this chunk, now or later.
  [[nodiscard]] bool brings(std::uint32_t chunk) const { return !ending_ && chunk >= next_; }
  // Fills `pieces`, which are the memory of `chunks` in order, when the body comes to them;
  // `filled` as of ByteLanes::fetch. Returns how many pieces, from the first on, are full: fewer
  // when the stream has ended, and then nothing writes into the rest any more.
  [[nodiscard]] Task<std::size_t> take(ChunkRun chunks, std::vector<std::span<std::byte>> pieces,
                                       ByteLanes::Filled filled);
  // No run takes anything more; those that wait for theirs get that.
  void end();
  // Of which the first one gives the bytes.
  [[nodiscard]] const std::shared_ptr<const SourceSet>& sources() const { return set_; }

 private:
  // A run's part.
  struct Part {
    std::size_t count;
    std::size_t full = 0;
    ByteLanes::Filled filled;
  };

  [[nodiscard]] static Task<void> run(std::shared_ptr<OriginStream> stream);
  // On the lane's thread.
  void give(std::vector<std::span<std::byte>> pieces);
  void check(std::size_t piece);
  // On the shard's.
  void arrived(std::vector<std::uint32_t> checksums);
  void stop();
  void finish();

  const Ports ports_;
  const FileReference file_;
  const std::size_t lane_;
  const std::shared_ptr<const SourceSet> set_;
  PieceSink sink_;                           // the lane's
  std::deque<std::shared_ptr<Part>> parts_;  // that are not full, in order
  std::uint32_t next_ = 0;                   // chunk for which no memory was given yet
  bool begun_ = false;
  bool ending_ = false;
  bool over_ = false;  // nothing more comes
  Event changed_;
  Reactor::Timer pause_;
};

}  // namespace hearth

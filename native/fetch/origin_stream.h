// One request for all of an object, whose body the runs of a file take one after the other. A
// server gives a whole object with less work than parts of it (sendfile), and the runs still ask
// for their grants and their memory one by one, just before their bytes come.
//
// Losing a stream costs a request, never a file: runs that the stream does not serve ask the origin
// by themselves, and report its errors. So a stream may end at any time: it does when a run came
// from elsewhere, when none came for kLongestPause, and when its server is slow.
//
// A server may give the beginning of one state of an object and the end of the next under the first
// one's tag. Where no digest would show that, the stream asks for the object once more before it
// gives its last piece, and ends without that piece when the object is another one. The job of a
// stream that ends before asks by Fetcher::prove().
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

// On the key's shard. After the end the lane's thread may drop the last reference.
class OriginStream : public std::enable_shared_from_this<OriginStream> {
 public:
  // A stream that no run asks for so long ends. Shorter than servers keep a connection that takes
  // nothing, and than a transfer may stall (OriginOptions::stallTimeout).
  static constexpr auto kLongestPause = std::chrono::seconds(1);
  static constexpr auto kProofTime = std::chrono::seconds(10);

  // Parts of the shard, all of which outlive the stream.
  struct Ports {
    Reactor& reactor;
    Gate& gate;  // background coroutines
    const ByteLanes& lanes;
    const BufferPool& buffers;  // owner of the chunks' memory
  };
  // `file` is all of its origin's object, in a dataset with one source. Sends no request before the
  // first take(). `lane`: the number for ByteLanes::stream.
  OriginStream(Ports ports, FileReference file, std::size_t lane);

  // True: a run that begins with this chunk may take it from the stream.
  [[nodiscard]] bool brings(std::uint32_t chunk) const { return !ending_ && chunk >= next_; }
  // Fills `pieces`, the memory of `chunks` in order, when the body comes to them; `filled` as for
  // ByteLanes::fetch. Returns the number of full pieces, from the first on: fewer than all when the
  // stream has ended, after which nothing writes into the rest.
  [[nodiscard]] Task<std::size_t> take(ChunkRun chunks, std::vector<std::span<std::byte>> pieces,
                                       ByteLanes::Filled filled);
  // Accepts no further run. Runs that wait for their bytes still get them.
  void end();
  // True: the stream has given bytes, and nothing shows that all of them are of one state.
  [[nodiscard]] bool isUnproved() const;
  // Asks whether the object is the expected one still. Errors: those of OriginClient, after one
  // attempt of at most kProofTime.
  [[nodiscard]] static Task<Status> askAgain(std::shared_ptr<OriginStream> stream);
  // The first source gives the bytes.
  [[nodiscard]] const std::shared_ptr<const SourceSet>& sources() const { return set_; }

 private:
  // The pieces of one run.
  struct Part {
    std::size_t count;
    std::size_t full = 0;
    ByteLanes::Filled filled;
  };

  [[nodiscard]] static Task<void> run(std::shared_ptr<OriginStream> stream);
  // Lane's thread.
  void check(std::size_t piece);
  // Shard's thread.
  void arrived(std::vector<std::uint32_t> checksums);
  void give(std::vector<std::uint32_t> checksums);
  // True: the piece that arrived is the last of the object, which nothing else proves.
  [[nodiscard]] bool mustConfirm() const;
  [[nodiscard]] static Task<void> confirm(std::shared_ptr<OriginStream> stream,
                                          std::vector<std::uint32_t> checksums);
  void stop();
  void finish();

  const Ports ports_;
  const FileReference file_;
  const std::size_t lane_;
  const std::shared_ptr<const SourceSet> set_;
  PieceSink sink_;                           // used on the lane's thread
  std::deque<std::shared_ptr<Part>> parts_;  // incomplete ones, in order
  std::uint32_t next_ = 0;                   // first chunk without memory
  bool begun_ = false;
  bool ending_ = false;
  bool over_ = false;  // no more bytes come
  bool confirming_ = false;
  bool given_ = false;   // any piece
  bool proved_ = false;  // by the origin's word after the last piece came
  Event changed_;
  Reactor::Timer pause_;
};

}  // namespace hearth

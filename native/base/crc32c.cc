#include "base/crc32c.h"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace hearth {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41 reflected

constexpr std::array<std::uint32_t, 256> makeTable() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = makeTable();

std::uint32_t update(std::uint32_t state, const std::byte* data, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) {
    state = (state >> 8) ^ kTable[(state ^ static_cast<std::uint32_t>(data[i])) & 0xff];
  }
  return state;
}

// A linear map over GF(2) from a CRC state to the state after a run of zero bytes: column i is the
// image of bit i (the method of zlib's crc32_combine, Mark Adler).
struct ZeroRun {
  std::array<std::uint32_t, 32> columns{};

  constexpr std::uint32_t apply(std::uint32_t state) const {
    std::uint32_t result = 0;
    for (std::size_t i = 0; state != 0; state >>= 1, ++i) {
      if (state & 1) result ^= columns[i];
    }
    return result;
  }
  // This run, twice.
  constexpr ZeroRun doubled() const {
    ZeroRun result;
    for (std::size_t i = 0; i < 32; ++i) result.columns[i] = apply(columns[i]);
    return result;
  }
};

// kRuns[n] advances over 2^n zero bytes.
constexpr std::array<ZeroRun, 64> makeRuns() {
  ZeroRun bit;
  bit.columns[0] = kPolynomial;
  for (std::size_t i = 1; i < 32; ++i) bit.columns[i] = 1u << (i - 1);
  std::array<ZeroRun, 64> runs{};
  runs[0] = bit.doubled().doubled().doubled();
  for (std::size_t i = 1; i < 64; ++i) runs[i] = runs[i - 1].doubled();
  return runs;
}
constexpr std::array<ZeroRun, 64> kRuns = makeRuns();

std::uint32_t advance(std::uint32_t state, std::uint64_t zeroBytes) {
  for (std::size_t i = 0; zeroBytes != 0; zeroBytes >>= 1, ++i) {
    if (zeroBytes & 1) state = kRuns[i].apply(state);
  }
  return state;
}

#if defined(__x86_64__)

// Three streams hide the three cycles that one crc32 instruction takes. The lane is a power of two
// so that joining lanes is one application of kRuns, tabulated by byte below.
constexpr std::size_t kLaneShift = 10;
constexpr std::size_t kLane = std::size_t{1} << kLaneShift;

struct LaneTable {
  std::array<std::array<std::uint32_t, 256>, 4> parts{};
  constexpr explicit LaneTable(const ZeroRun& run) {
    for (std::size_t part = 0; part < 4; ++part) {
      for (std::uint32_t value = 0; value < 256; ++value) {
        parts[part][value] = run.apply(value << (8 * part));
      }
    }
  }
  std::uint32_t apply(std::uint32_t state) const {
    return parts[0][state & 0xff] ^ parts[1][(state >> 8) & 0xff] ^ parts[2][(state >> 16) & 0xff] ^
           parts[3][state >> 24];
  }
};
const LaneTable kAdvanceLane(kRuns[kLaneShift]);

constexpr std::size_t kCacheLine = 64;

__attribute__((target("sse4.2"))) std::uint64_t step(std::uint64_t state, const std::byte* data) {
  std::uint64_t word;
  std::memcpy(&word, data, sizeof word);
  return _mm_crc32_u64(state, word);
}

__attribute__((target("sse4.2"))) std::uint32_t updateHardware(std::uint32_t state,
                                                               const std::byte* data,
                                                               std::size_t size) {
  while (size >= 3 * kLane) {
    std::uint64_t a = state, b = 0, c = 0;
    for (std::size_t line = 0; line < kLane; line += kCacheLine) {
      // The next round's three lanes: processors do not guess from three short runs what comes, and
      // bytes in memory took up to half as long again (measured, of 256 MiB). Beyond the end of the
      // data it does nothing.
      for (std::size_t lane = 3; lane < 6; ++lane) __builtin_prefetch(data + lane * kLane + line);
      for (std::size_t i = line; i < line + kCacheLine; i += 8) {
        a = step(a, data + i);
        b = step(b, data + kLane + i);
        c = step(c, data + 2 * kLane + i);
      }
    }
    state = kAdvanceLane.apply(static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b);
    state = kAdvanceLane.apply(state) ^ static_cast<std::uint32_t>(c);
    data += 3 * kLane;
    size -= 3 * kLane;
  }
  std::uint64_t wide = state;
  for (; size >= 8; data += 8, size -= 8) wide = step(wide, data);
  return update(static_cast<std::uint32_t>(wide), data, size);
}

#endif

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t crc) {
#if defined(__x86_64__)
  static const bool hardware = __builtin_cpu_supports("sse4.2");
  if (hardware) return ~updateHardware(~crc, data.data(), data.size());
#endif
  return ~update(~crc, data.data(), data.size());
}

std::uint32_t crc32cCombine(std::uint32_t crcA, std::uint32_t crcB, std::uint64_t lengthB) {
  return advance(crcA, lengthB) ^ crcB;
}

std::vector<std::uint32_t> crc32cOfBlocks(std::span<const std::byte> data, std::size_t blockBytes) {
  std::vector<std::uint32_t> checksums;
  checksums.reserve((data.size() + blockBytes - 1) / blockBytes);
  for (std::size_t at = 0; at < data.size(); at += blockBytes) {
    checksums.push_back(crc32c(data.subspan(at, std::min(blockBytes, data.size() - at))));
  }
  return checksums;
}

}  // namespace hearth

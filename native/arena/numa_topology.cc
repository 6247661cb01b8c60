#include "arena/numa_topology.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>

#include "memory/aligned_mapping.h"

namespace hearth {
namespace {

constexpr int kMaxNodes = 1024;
constexpr std::size_t kWordBits = 64;

std::vector<int> allowedNodes(const std::string& root) {
  constexpr std::string_view kAllowed = "Mems_allowed_list:";
  std::ifstream status(root + "/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kAllowed)) continue;
    const std::size_t from = line.find_first_not_of(" \t", kAllowed.size());
    return from == std::string::npos ? std::vector<int>() : parseNodeList(line.substr(from));
  }
  return {};
}

}  // namespace

std::vector<int> parseNodeList(std::string_view text) {
  std::vector<int> nodes;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int first = 0;
    auto parsed = std::from_chars(at, end, first);
    int last = first;
    if (parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == '-')
      parsed = std::from_chars(parsed.ptr + 1, end, last);
    const bool good = parsed.ec == std::errc() && first >= 0 && last >= first && last < kMaxNodes;
    if (!good || (parsed.ptr != end && *parsed.ptr != ',')) return {};
    for (int node = first; node <= last; ++node) nodes.push_back(node);
    at = parsed.ptr == end ? end : parsed.ptr + 1;
  }
  std::ranges::sort(nodes);
  nodes.erase(std::ranges::unique(nodes).begin(), nodes.end());
  return nodes;
}

std::vector<int> KernelNumaTopology::nodes() const {
  std::ifstream file(root_ + "/sys/devices/system/node/has_memory");
  std::string list;
  std::getline(file, list);
  const std::vector<int> there = parseNodeList(list);
  const std::vector<int> allowed = allowedNodes(root_);
  std::vector<int> both;
  std::ranges::set_intersection(there, allowed, std::back_inserter(both));
  // A kernel without NUMA has no such folder.
  return both.empty() ? std::vector<int>{0} : both;
}

Status KernelNumaTopology::prefer(int file, std::uint64_t offset, std::uint64_t bytes,
                                  int node) const {
  // The policy of a shared mapping is its file's, and stays when it is unmapped (mbind(2)).
  const auto mapping = AlignedMapping::map(file, offset, bytes, true);
  if (!mapping.ok()) return mapping.error();
  std::array<std::uint64_t, kMaxNodes / kWordBits> mask{};
  const auto bit = static_cast<std::size_t>(node);
  if (node < 0 || node >= kMaxNodes)
    return Error{ErrorCode::kInvalidArgument, "there is no NUMA node " + std::to_string(node)};
  mask[bit / kWordBits] = std::uint64_t{1} << (bit % kWordBits);
  // The kernel reads one bit less than it is given.
  if (::syscall(SYS_mbind, mapping->data(), mapping->bytes(), MPOL_PREFERRED, mask.data(),
                kMaxNodes + 1, 0) != 0)
    return errnoError(errno, "taking memory of NUMA node " + std::to_string(node));
  return {};
}

}  // namespace hearth

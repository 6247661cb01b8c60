#include "probe/probes.h"

namespace hearth {
namespace {

std::string pagesForPeople(ArenaPageKind kind) {
  switch (kind) {
    case ArenaPageKind::kSmall:
      return "pages of 4 KiB";
    case ArenaPageKind::kTransparent:
      return "transparent pages of 2 MiB";
    case ArenaPageKind::kHuge2M:
      return "huge pages of 2 MiB";
    case ArenaPageKind::kHuge1G:
      return "huge pages of 1 GiB";
  }
  return "pages of 4 KiB";
}

}  // namespace

std::vector<Probe> probeArena(const ArenaPages& pages) {
  std::string detail = pagesForPeople(pages.kind);
  if (!pages.reason.empty()) detail += "; no better ones: " + pages.reason;
  if (pages.kind > ArenaPageKind::kSmall) return {{"arena pages", ProbeStatus::kOk, detail, ""}};
  return {{"arena pages", ProbeStatus::kDegraded, detail,
           "Processors and network cards translate more addresses than they remember. Set huge "
           "pages apart (`sysctl vm.nr_hugepages=N`, and in a pod request hugepages-2Mi), or run "
           "Linux 6.1 or later with CONFIG_TRANSPARENT_HUGEPAGE."}};
}

}  // namespace hearth

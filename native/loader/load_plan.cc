#include "loader/load_plan.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace hearth {
namespace {

std::uint64_t pageDown(std::uint64_t value) {
  return value / kDirectReadAlignment * kDirectReadAlignment;
}

std::uint64_t pageUp(std::uint64_t value) { return pageDown(value + kDirectReadAlignment - 1); }

using NameSet = std::unordered_set<std::string_view>;

Status checkNames(std::span<const std::shared_ptr<const ModelFile>> files, NameSet missing) {
  std::unordered_map<std::string_view, const ModelFile*> seen;
  for (const auto& file : files) {
    for (const TensorEntry& tensor : file->header().tensors) {
      missing.erase(tensor.name);
      const auto [at, isNew] = seen.emplace(tensor.name, file.get());
      if (!isNew) {
        return Error{ErrorCode::kAlreadyExists, "tensor '" + tensor.name + "' is in " +
                                                    at->second->path() + " and in " + file->path()};
      }
    }
  }
  if (missing.empty()) return {};
  return Error{ErrorCode::kNotFound,
               "no file has the tensor '" + std::string(*std::ranges::min_element(missing)) + "'" +
                   (missing.size() > 1
                        ? " and " + std::to_string(missing.size() - 1) + " others that were named"
                        : "")};
}

bool isAligned(const ModelFile& file, const TensorEntry& tensor) {
  return (file.dataOffset() + tensor.begin) % tensorTypeAlignment(tensor.type) == 0;
}

FilePlan planFile(const std::shared_ptr<const ModelFile>& file, const NameSet* wanted) {
  FilePlan plan{.file = file};
  for (const TensorEntry& tensor : file->header().tensors) {
    if (wanted != nullptr && !wanted->contains(tensor.name)) continue;
    const std::uint64_t begin = file->dataOffset() + tensor.begin;
    PlannedRead* const last = plan.reads.empty() ? nullptr : &plan.reads.back();
    const bool isPlaced = isAligned(*file, tensor);
    // A page is never read twice, so the next read begins on a page of its own.
    const bool continues =
        last != nullptr && isPlaced &&
        last->offset % kDirectReadAlignment == last->inMemory % kDirectReadAlignment &&
        begin <= pageUp(last->offset + last->size);
    if (continues) {
      plan.tensors.push_back({{file, &tensor}, last->inMemory + (begin - last->offset)});
      last->size = std::max(last->size, begin + tensor.bytes() - last->offset);
    } else {
      const std::uint64_t before = isPlaced ? begin - pageDown(begin) : 0;
      plan.reads.push_back({begin - before, plan.memoryBytes, before + tensor.bytes()});
      plan.tensors.push_back({{file, &tensor}, plan.memoryBytes + before});
    }
    plan.memoryBytes = pageUp(plan.reads.back().inMemory + plan.reads.back().size);
  }
  return plan;
}

}  // namespace

std::uint64_t LoadPlan::readBytes() const {
  std::uint64_t bytes = 0;
  for (const FilePlan& file : files) {
    for (const PlannedRead& read : file.reads) bytes += read.size;
    for (const RowRead& rows : file.rows) bytes += rows.bytes();
  }
  return bytes;
}

LoadPlan shareOf(const LoadPlan& plan, unsigned rank, unsigned ranks) {
  const std::uint64_t total = plan.readBytes();
  const auto boundary = [&](unsigned before) {
    return static_cast<std::uint64_t>(static_cast<unsigned __int128>(total) * before / ranks);
  };
  const std::uint64_t begin = boundary(rank), end = boundary(rank + 1);
  LoadPlan share = plan;
  std::uint64_t at = 0;  // bytes of the plan before the read
  for (FilePlan& file : share.files) {
    std::vector<PlannedRead> mine;
    for (const PlannedRead& read : file.reads) {
      const auto cut = [&](std::uint64_t boundaryByte) -> std::uint64_t {
        if (boundaryByte <= at) return 0;
        if (boundaryByte >= at + read.size) return read.size;
        return std::min(pageUp(read.offset + boundaryByte - at) - read.offset, read.size);
      };
      const std::uint64_t from = cut(begin), to = cut(end);
      if (from < to) mine.push_back({read.offset + from, read.inMemory + from, to - from});
      at += read.size;
    }
    file.reads = std::move(mine);
  }
  return share;
}

Result<LoadPlan> planLoad(std::span<const std::shared_ptr<const ModelFile>> files,
                          const std::optional<std::vector<std::string>>& names) {
  NameSet wanted;
  if (names) wanted.insert(names->begin(), names->end());
  if (const Status status = checkNames(files, wanted); !status) return status.error();
  LoadPlan plan;
  for (const auto& file : files) {
    FilePlan planned = planFile(file, names ? &wanted : nullptr);
    if (!planned.tensors.empty()) plan.files.push_back(std::move(planned));
  }
  return plan;
}

}  // namespace hearth

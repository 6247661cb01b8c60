#include "loader/model_loader.h"

namespace hearth {

Result<LoadedModel> loadModel(std::span<const std::string> paths, const LoadOptions& options) {
  std::vector<std::shared_ptr<const ModelFile>> files;
  for (const std::string& path : paths) {
    auto file = ModelFile::open(path);
    if (!file) return file.error();
    files.push_back(std::move(*file));
  }
  Result<LoadPlan> plan = planLoad(files, options.names);
  if (!plan) return plan.error();

  LoadedModel model{.plan = std::move(*plan)};
  std::vector<FileDestination> destinations;
  for (const FilePlan& file : model.plan.files) {
    std::shared_ptr<MemoryRegion> memory;
    if (file.memoryBytes > 0) {
      auto allocated = MemoryRegion::allocate(file.memoryBytes);
      if (!allocated) return allocated.error().within("memory for " + file.file->path());
      memory = std::move(*allocated);
      destinations.push_back({&file, memory->bytes().data()});
    }
    for (const PlacedTensor& tensor : file.tensors) {
      model.tensors.push_back({tensor.entry, memory, tensor.inMemory});
    }
  }
  if (const Status read = readInParallel(destinations, options.read); !read) return read.error();
  for (const FilePlan& file : model.plan.files) {
    if (const Status same = file.file->checkUnchanged(); !same) return same.error();
  }
  return model;
}

}  // namespace hearth

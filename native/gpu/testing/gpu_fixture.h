// A machine with two GPUs (fake_gpu.h) and a folder of files. Every test ends with the proof that
// no contract was broken and that everything was given back.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gpu/device_files.h"
#include "gpu/gpu_runtime.h"
#include "gpu/testing/fake_gpu.h"

namespace hearth::testing_gpu {

inline std::vector<std::byte> randomBytes(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

class GpuFixture : public testing::Test {
 protected:
  GpuFixture() {
    std::string name = testing::TempDir() + "hearth-gpu-XXXXXX";
    folder_ = mkdtemp(name.data());
    FakeGpu::instance().reset({});
    seams_.cuda = [] { return Result<CudaFunctions>(FakeGpu::cuda()); };
    seams_.cufile = [] { return Result<CufileFunctions>(FakeGpu::cufile()); };
    seams_.trial = [](bool) { return Status(); };
    seams_.root = folder_ + "/root";
    std::filesystem::create_directories(seams_.root + "/proc/driver/nvidia-fs");
    std::ofstream(seams_.root + "/proc/driver/nvidia-fs/version") << "version: 2.19\n";
  }
  ~GpuFixture() override {
    runtime_.reset();
    EXPECT_THAT(gpu().breaches(), testing::IsEmpty());
    EXPECT_THAT(gpu().live(), testing::IsEmpty());
    std::filesystem::remove_all(folder_);
  }

  static FakeGpu& gpu() { return FakeGpu::instance(); }
  // After seams_ and the fake's options are as the test wants them.
  std::shared_ptr<Device> open(std::string_view name = "cuda:0") {
    if (!runtime_) runtime_ = std::make_shared<GpuRuntime>(seams_);
    Result<std::shared_ptr<Device>> device = runtime_->open(name);
    EXPECT_TRUE(device.ok()) << device.error().message;
    return device.ok() ? *device : nullptr;
  }
  std::shared_ptr<MemoryRegion> allocate(Device& device, std::uint64_t bytes) {
    Result<std::shared_ptr<MemoryRegion>> memory = device.allocate(bytes);
    EXPECT_TRUE(memory.ok()) << memory.error().message;
    return memory.ok() ? *memory : nullptr;
  }
  std::unique_ptr<DeviceFiles> files(const std::shared_ptr<Device>& device,
                                     DeviceFiles::Choice choice, unsigned lanes = 2) {
    DeviceFiles::Options options;
    options.choice = choice;
    options.lanes = lanes;
    options.sliceBytes = 16384;
    Result<std::unique_ptr<DeviceFiles>> opened = DeviceFiles::open(device, options);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    return opened.ok() ? std::move(*opened) : nullptr;
  }
  std::string makeFile(const std::string& name, const std::vector<std::byte>& bytes) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
    return path;
  }
  static std::vector<std::byte> contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto* const bytes = reinterpret_cast<const std::byte*>(text.data());
    return {bytes, bytes + text.size()};
  }

  GpuRuntime::Seams seams_;
  std::string folder_;
  std::shared_ptr<GpuRuntime> runtime_;
};

}  // namespace hearth::testing_gpu

#include "probe/probe.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "probe/probes.h"
#include "probe/system_tree.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;

class ProbeTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "hearth-probe-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_;
  const Stage stage_ = [](const std::string&) {};
};

TEST_F(ProbeTest, jsonEscapes) {
  const Probe probe{"nic \"a\"", ProbeStatus::kDegraded, "back\\slash\n\xC3\xA4\xFF\xE2\x82", "x"};
  EXPECT_EQ(probeJson(probe),
            "{\"name\":\"nic \\\"a\\\"\",\"status\":\"degraded\",\"detail\":\"back\\\\slash\\u000a"
            "\xC3\xA4\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\",\"advice\":\"x\"}");
}

TEST_F(ProbeTest, memory) {
  put("/proc/meminfo", "MemTotal:       16777216 kB\nMemAvailable:    8388608 kB\n");
  EXPECT_EQ(probeMemory(SystemTree(root_))[0].detail, "16 GiB, 8 GiB available");
  put("/proc/meminfo", "MemTotal:       16777216 kB\nMemAvailable:     524288 kB\n");
  EXPECT_EQ(probeMemory(SystemTree(root_))[0].status, ProbeStatus::kDegraded);
  EXPECT_EQ(probeMemory(SystemTree(root_ + "/absent"))[0].status, ProbeStatus::kMissing);
}

TEST_F(ProbeTest, hugePages) {
  const SystemTree tree(root_);
  EXPECT_EQ(probeHugePages(tree)[0].status, ProbeStatus::kMissing);
  put("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
  put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0\n");
  EXPECT_EQ(probeHugePages(tree)[0].status, ProbeStatus::kDegraded);
  put("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
  put("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n");
  const Probe probe = probeHugePages(tree)[0];
  EXPECT_EQ(probe.status, ProbeStatus::kOk);
  EXPECT_EQ(probe.detail, "512 pages of 2 MiB (500 free)");
}

TEST_F(ProbeTest, arenaPages) {
  const Probe best = probeArena({ArenaPageKind::kHuge1G, ""})[0];
  EXPECT_EQ(best.detail, "huge pages of 1 GiB");
  EXPECT_EQ(best.status, ProbeStatus::kOk);
  const Probe transparent = probeArena({ArenaPageKind::kTransparent, "no others are free"})[0];
  EXPECT_EQ(transparent.detail, "transparent pages of 2 MiB; no better ones: no others are free");
  EXPECT_EQ(transparent.status, ProbeStatus::kOk);
  const Probe small = probeArena({ArenaPageKind::kSmall, "the kernel makes none"})[0];
  EXPECT_EQ(small.detail, "pages of 4 KiB; no better ones: the kernel makes none");
  EXPECT_EQ(small.status, ProbeStatus::kDegraded);
  EXPECT_NE(small.advice.find("vm.nr_hugepages"), std::string::npos);
}

TEST_F(ProbeTest, controlGroup) {
  const SystemTree tree(root_);
  EXPECT_EQ(probeControlGroup(tree)[0].status, ProbeStatus::kDegraded);
  put("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  put("/proc/self/cgroup", "0::/pod\n");
  put("/sys/fs/cgroup/pod/cgroup.procs", "");
  put("/sys/fs/cgroup/pod/memory.max", "8589934592\n");
  put("/sys/fs/cgroup/pod/cpu.max", "max 100000\n");
  EXPECT_EQ(probeControlGroup(tree)[0].detail,
            "version 2, /pod, memory limit 8 GiB, processors not limited");
  put("/sys/fs/cgroup/pod/memory.max", "268435456\n");
  EXPECT_EQ(probeControlGroup(tree)[0].status, ProbeStatus::kDegraded);
}

TEST_F(ProbeTest, gpus) {
  const SystemTree tree(root_);
  EXPECT_EQ(probeGpus(tree)[0].status, ProbeStatus::kMissing);
  put("/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
  put("/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  put("/sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n");
  put("/sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");  // its sound device
  EXPECT_EQ(probeGpus(tree)[0].detail, "1 on the PCI bus, no driver");
  EXPECT_EQ(probeGpus(tree)[0].status, ProbeStatus::kDegraded);
  put("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 1\n");
  EXPECT_EQ(probeGpus(tree)[0].detail, "1 with driver, NVIDIA H200");
  EXPECT_EQ(probeGpus(tree)[0].status, ProbeStatus::kOk);
}

TEST_F(ProbeTest, rdmaDevices) {
  const SystemTree tree(root_);
  EXPECT_EQ(probeRdmaDevices(tree)[0].status, ProbeStatus::kMissing);
  EXPECT_NE(probeRdmaDevices(tree)[0].advice.find("mount /sys"), std::string::npos);
  put("/sys/class/net/lo/mtu", "65536\n");
  EXPECT_NE(probeRdmaDevices(tree)[0].advice.find("modprobe mlx5_ib"), std::string::npos);
  const std::string port = "/sys/class/infiniband/mlx5_0/ports/1";
  put(port + "/state", "4: ACTIVE\n");
  put(port + "/link_layer", "Ethernet\n");
  put(port + "/rate", "400 Gb/sec (4X NDR)\n");
  put(port + "/gid_attrs/ndevs/0", "eth1\n");
  EXPECT_EQ(probeRdmaDevices(tree)[0].detail, "port 1 ACTIVE Ethernet 400 Gb/sec (4X NDR) (eth1)");
  EXPECT_EQ(probeRdmaDevices(tree)[0].status, ProbeStatus::kOk);
  put(port + "/state", "1: DOWN\n");
  EXPECT_EQ(probeRdmaDevices(tree)[0].status, ProbeStatus::kDegraded);
}

TEST_F(ProbeTest, nvidiaFs) {
  const SystemTree tree(root_);
  EXPECT_EQ(probeNvidiaFs(tree)[0].status, ProbeStatus::kMissing);
  put("/proc/modules", "nvidia_uvm 1 0 - Live 0\nnvidia_fs 2 0 - Live 0\n");
  EXPECT_EQ(probeNvidiaFs(tree)[0].status, ProbeStatus::kOk);
  put("/proc/driver/nvidia-fs/version", "version: 2.19\n");
  EXPECT_EQ(probeNvidiaFs(tree)[0].detail, "loaded, version: 2.19");
}

TEST_F(ProbeTest, diskOfADirectory) {
  const SystemTree tree("");
  const auto before = std::distance(fs::directory_iterator(root_), fs::directory_iterator());
  const Probe probe = probeDisk(tree, root_, stage_)[0];
  EXPECT_EQ(probe.name, "disk " + root_);
  EXPECT_NE(probe.status, ProbeStatus::kMissing) << probe.detail;
  EXPECT_NE(probe.detail.find("sparse files"), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), before);
}

TEST_F(ProbeTest, diskKinds) {
  struct stat status {};
  ASSERT_EQ(stat(root_.c_str(), &status), 0);
  const std::string number =
      std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
  put("/proc/self/mountinfo",
      "1 0 8:1 / / rw - ext4 /dev/root rw\n2 1 8:2 / " + root_ + " rw shared:1 - xfs /dev/x rw\n");
  put("/sys/devices/pci0/nvme/nvme0/nvme0n1/queue/rotational", "0\n");
  put("/sys/devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p2/partition", "2\n");
  put("/sys/devices/virtual/block/dm-0/slaves/.keep", "");
  fs::remove(root_ + "/sys/devices/virtual/block/dm-0/slaves/.keep");
  fs::create_directory_symlink(root_ + "/sys/devices/pci0/nvme/nvme0/nvme0n1/nvme0n1p2",
                               root_ + "/sys/devices/virtual/block/dm-0/slaves/nvme0n1p2");
  fs::create_directories(root_ + "/sys/dev/block");
  fs::create_directory_symlink(root_ + "/sys/devices/virtual/block/dm-0",
                               root_ + "/sys/dev/block/" + number);
  const Probe probe = probeDisk(SystemTree(root_), root_, stage_)[0];
  EXPECT_TRUE(probe.detail.starts_with("xfs, ")) << probe.detail;
  EXPECT_NE(probe.detail.find(", dm-0 on NVMe nvme0n1p2,"), std::string::npos) << probe.detail;
}

TEST_F(ProbeTest, diskThatIsNotThere) {
  const SystemTree tree("");
  const Probe absent = probeDisk(tree, root_ + "/absent", stage_)[0];
  EXPECT_EQ(absent.status, ProbeStatus::kMissing);
  EXPECT_NE(absent.advice.find("mkdir"), std::string::npos);
  put("/file", "");
  EXPECT_EQ(probeDisk(tree, root_ + "/file", stage_)[0].detail, "it is not a directory");
}

// Whatever this machine has, every probe gives its row, unusable ones with advice, none with two.
TEST_F(ProbeTest, thisMachine) {
  ProbeOptions options;
  options.cacheDirectories = {root_};
  const std::vector<Probe> rows = runProbes(options);
  for (const char* name :
       {"kernel", "io_uring", "fuse", "fuse passthrough", "memory", "huge pages", "arena pages",
        "limits", "cgroup", "clock", "verbs", "gpu", "cuda", "nvidia-fs", "cufile"}) {
    EXPECT_EQ(
        std::count_if(rows.begin(), rows.end(), [&](const Probe& row) { return row.name == name; }),
        1)
        << name;
  }
  for (const Probe& row : rows) {
    EXPECT_FALSE(row.detail.empty()) << row.name;
    EXPECT_EQ(row.advice.empty(), row.status == ProbeStatus::kOk) << probeJson(row);
  }
}

}  // namespace
}  // namespace hearth

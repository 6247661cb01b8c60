// Rows about RDMA, on trees of /sys, /proc and /dev that tests make.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "probe/rdma_gids.h"

namespace hearth {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RdmaProbeTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "hearth-rdma-probe-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  // Port 1 of `device` on Ethernet, with `gids` of one type on the interface eth1.
  void putPort(const std::string& device, const std::vector<std::string>& gids,
               const std::string& type = "RoCE v2") {
    const std::string port = portOf(device);
    put(port + "/link_layer", "Ethernet\n");
    for (std::size_t index = 0; index < gids.size(); ++index) {
      const std::string number = std::to_string(index);
      put(port + "/gids/" + number, gids[index] + "\n");
      put(port + "/gid_attrs/types/" + number, type + "\n");
      put(port + "/gid_attrs/ndevs/" + number, "eth1\n");
    }
  }
  static std::string portOf(const std::string& device) {
    return "/sys/class/infiniband/" + device + "/ports/1";
  }
  // A function of the PCI bus at `path` below /sys/devices.
  void putPci(const std::string& path, const std::string& node, bool isGpu) {
    const std::string device = "/sys/devices/" + path;
    put(device + "/vendor", isGpu ? "0x10de\n" : "0x15b3\n");
    put(device + "/class", isGpu ? "0x030200\n" : "0x020000\n");
    put(device + "/numa_node", node + "\n");
    link("/sys/bus/pci/devices/" + fs::path(path).filename().string(), device);
  }
  void putRdma(const std::string& name, const std::string& path, const std::string& node) {
    putPci(path, node, false);
    fs::create_directories(root_ + "/sys/class/infiniband/" + name);
    link("/sys/class/infiniband/" + name + "/device", "/sys/devices/" + path);
  }
  void link(const std::string& from, const std::string& to) {
    fs::create_directories(fs::path(root_ + from).parent_path());
    fs::create_directory_symlink(root_ + to, root_ + from);
  }

  const std::string linkLocal_ = "fe80:0000:0000:0000:0a00:27ff:fe00:0001";
  const std::string mapped_ = "0000:0000:0000:0000:0000:ffff:0a00:0007";
  const std::string empty_ = "0000:0000:0000:0000:0000:0000:0000:0000";
  std::string root_;
};

TEST_F(RdmaProbeTest, SaysNothingOfMachinesWithoutDevices) {
  const SystemTree tree(root_);
  for (const auto probe : {probeRdmaPorts, probeRdmaFiles, probeRdmaPlaces, probePeerMemory})
    EXPECT_THAT(probe(tree), IsEmpty());
}

TEST_F(RdmaProbeTest, NamesTheGidThatIsUsed) {
  putPort("mlx5_0", {linkLocal_, empty_, mapped_});
  const Probe row = probeRdmaPorts(SystemTree(root_))[0];
  EXPECT_EQ(row.name, "gid mlx5_0/1");
  EXPECT_EQ(row.status, ProbeStatus::kOk);
  EXPECT_EQ(row.detail,
            "2 10.0.0.7 (RoCE v2, eth1) is used; others: 0 " + linkLocal_ + " (RoCE v2, eth1)");
}

TEST_F(RdmaProbeTest, TellsGidsThatReachTooLittle) {
  putPort("mlx5_0", {linkLocal_});
  EXPECT_THAT(probeRdmaPorts(SystemTree(root_))[0].advice, HasSubstr("an IPv4 address"));
  putPort("mlx5_0", {mapped_}, "IB/RoCE v1");
  EXPECT_THAT(probeRdmaPorts(SystemTree(root_))[0].advice, HasSubstr("Enable RoCE v2"));
  putPort("mlx5_0", {empty_});
  const Probe none = probeRdmaPorts(SystemTree(root_))[0];
  EXPECT_EQ(none.status, ProbeStatus::kMissing);
  EXPECT_THAT(none.advice, HasSubstr("an IP address"));
}

TEST_F(RdmaProbeTest, TellsPortsOfInfiniBandThatNoSubnetManagerKnows) {
  const std::string port = portOf("mlx5_0");
  put(port + "/link_layer", "InfiniBand\n");
  put(port + "/gids/0", linkLocal_ + "\n");
  put(port + "/lid", "0x0\n");
  EXPECT_THAT(probeRdmaPorts(SystemTree(root_))[0].advice, HasSubstr("opensm"));
  put(port + "/lid", "0x1f\n");
  const std::vector<Probe> rows = probeRdmaPorts(SystemTree(root_));
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].status, ProbeStatus::kOk);
  EXPECT_THAT(rows[0].detail, HasSubstr("LID 0x1f"));
}

TEST_F(RdmaProbeTest, TellsThePacketsOfAnInterface) {
  putPort("mlx5_0", {mapped_});
  const auto packets = [this](const std::string& mtu) {
    put("/sys/class/net/eth1/mtu", mtu);
    return probeRdmaPorts(SystemTree(root_)).at(1);
  };
  EXPECT_EQ(packets("9000").status, ProbeStatus::kOk);
  EXPECT_EQ(packets("4192").detail, "4096 bytes, by the MTU 4192 of eth1");
  EXPECT_EQ(packets("4191").detail, "2048 bytes, by the MTU 4191 of eth1");
  EXPECT_EQ(packets("1500").detail, "1024 bytes, by the MTU 1500 of eth1");
  EXPECT_THAT(packets("1500").advice, HasSubstr("MTU 9000"));
}

TEST_F(RdmaProbeTest, TellsRoutesThatLeaveByOtherInterfaces) {
  putPort("mlx5_0", {linkLocal_, mapped_});
  const SystemTree tree(root_);
  Gid source{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 7};
  const RouteLookup fromSource = [&source](const Gid&) { return Result<Gid>(source); };
  const Probe sound = probeRdmaRoute(tree, "10.0.0.8", fromSource)[0];
  EXPECT_EQ(sound.status, ProbeStatus::kOk);
  EXPECT_EQ(sound.detail, "from 10.0.0.7, GID 1 of mlx5_0/1");
  source[12] = 192;
  const Probe other = probeRdmaRoute(tree, "10.0.0.8", fromSource)[0];
  EXPECT_EQ(other.status, ProbeStatus::kDegraded);
  EXPECT_EQ(other.detail, "from 192.0.0.7, which is the address of no RDMA port");
  EXPECT_THAT(other.advice, HasSubstr("`ip route add 10.0.0.8 dev eth1 src 10.0.0.7`"));
  const RouteLookup none = [](const Gid&) {
    return Result<Gid>(Error{ErrorCode::kUnavailable, "Network is unreachable"});
  };
  EXPECT_EQ(probeRdmaRoute(tree, "10.0.0.8", none)[0].detail, "no route: Network is unreachable");
  EXPECT_EQ(probeRdmaRoute(tree, "n2", none)[0].detail, "not an address");
}

TEST_F(RdmaProbeTest, AsksTheKernelForTheSource) {
  const Gid loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1};
  const Result<Gid> source = sourceTowards(loopback);
  ASSERT_TRUE(source.ok()) << source.error().message;
  EXPECT_EQ(*source, loopback);
}

TEST_F(RdmaProbeTest, TellsDeviceFilesThatAreMissing) {
  putPort("mlx5_0", {mapped_});
  EXPECT_THAT(probeRdmaFiles(SystemTree(root_))[0].advice, HasSubstr("modprobe ib_uverbs"));
  put("/sys/class/infiniband_verbs/abi_version", "6\n");
  put("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
  const Probe missing = probeRdmaFiles(SystemTree(root_))[0];
  EXPECT_EQ(missing.status, ProbeStatus::kMissing);
  EXPECT_EQ(missing.detail, "/dev/infiniband/uverbs0 of mlx5_0 is not there");
  put("/dev/infiniband/uverbs0", "");
  put("/sys/class/infiniband_verbs/uverbs1/ibdev", "mlx5_1\n");
  EXPECT_EQ(probeRdmaFiles(SystemTree(root_))[0].status, ProbeStatus::kDegraded);
  put("/dev/infiniband/uverbs1", "");
  EXPECT_EQ(probeRdmaFiles(SystemTree(root_))[0].status, ProbeStatus::kOk);
}

TEST_F(RdmaProbeTest, FindsTheNearestDevicesOfAGpu) {
  putPci("pci0000:16/0000:16:00.0/0000:17:00.0/0000:18:00.0/0000:19:00.0", "0", true);
  putRdma("far", "pci0000:a0/0000:a0:00.0/0000:a1:00.0", "1");
  const auto row = [this] { return probeRdmaPlaces(SystemTree(root_)).at(0); };
  EXPECT_EQ(row().name, "near gpu 0000:19:00.0");
  EXPECT_EQ(row().detail, "far on another NUMA node");
  EXPECT_EQ(row().status, ProbeStatus::kDegraded);
  putRdma("side", "pci0000:30/0000:30:00.0/0000:31:00.0", "0");
  EXPECT_EQ(row().detail, "side on the same NUMA node");
  putRdma("bridge", "pci0000:16/0000:16:01.0/0000:20:00.0", "0");
  EXPECT_EQ(row().detail, "bridge on the same PCIe host bridge");
  putRdma("one", "pci0000:16/0000:16:00.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0", "0");
  putRdma("two", "pci0000:16/0000:16:00.0/0000:17:00.0/0000:18:01.0/0000:1a:00.1", "0");
  EXPECT_EQ(row().detail, "one, two behind the same PCIe switch");
  EXPECT_EQ(row().status, ProbeStatus::kOk);
}

TEST_F(RdmaProbeTest, FindsTheDevicesOfEachNumaNode) {
  putRdma("mlx5_0", "pci0000:16/0000:16:00.0/0000:17:00.0", "0");
  put("/sys/devices/system/node/node0/cpulist", "0-7\n");
  put("/sys/devices/system/node/possible", "0-1\n");
  EXPECT_THAT(probeRdmaPlaces(SystemTree(root_)), IsEmpty());
  put("/sys/devices/system/node/node1/cpulist", "8-15\n");
  const std::vector<Probe> rows = probeRdmaPlaces(SystemTree(root_));
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].detail, "mlx5_0");
  EXPECT_EQ(rows[1].name, "near NUMA node 1");
  EXPECT_EQ(rows[1].status, ProbeStatus::kDegraded);
}

TEST_F(RdmaProbeTest, FindsThePathIntoTheMemoryOfGpus) {
  putPci("pci0000:16/0000:16:00.0/0000:17:00.0", "0", true);
  EXPECT_THAT(probePeerMemory(SystemTree(root_)), IsEmpty());
  putRdma("mlx5_0", "pci0000:16/0000:16:01.0/0000:18:00.0", "0");
  EXPECT_EQ(probePeerMemory(SystemTree(root_))[0].status, ProbeStatus::kDegraded);
  put("/proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86\n");
  EXPECT_THAT(probePeerMemory(SystemTree(root_))[0].detail, HasSubstr("dma-buf"));
  put("/proc/modules", "nvidia_peermem 16384 0 - Live 0\n");
  const Probe row = probePeerMemory(SystemTree(root_))[0];
  EXPECT_EQ(row.status, ProbeStatus::kOk);
  EXPECT_THAT(row.detail, HasSubstr("nvidia_peermem is loaded"));
}

}  // namespace
}  // namespace hearth

/** `off`: the library is not even loaded. `required`: the engine does not open without; a port that fails later leaves TCP. */
export type RdmaUse = 'off' | 'auto' | 'required';

export interface RdmaOptions {
  use: RdmaUse;
  /** Patterns of devices (`mlx5_*`) and of ports (`mlx5_0/1`) that may be used; empty: all. */
  devices: string[];
  /** Name or path of libibverbs; '': the usual one. */
  library: string;
}

/** One port of a device that could be opened. */
export interface RdmaPort {
  /** `mlx5_0/1`. */
  name: string;
  /** As far as the device has told. */
  active: boolean;
  /** Reads go over it while it is active. */
  used: boolean;
  link: 'InfiniBand' | 'RoCE v1' | 'RoCE v2';
  /** By which other agents reach it, such as `10.0.0.7`. */
  gid: string;
  mtuBytes: number;
  /** 0: unknown. */
  bitsPerSecond: bigint;
  /** -1: unknown. */
  numaNode: number;
  /** '' when it is unknown. */
  pciPath: string;
}

export interface RdmaStatistics {
  use: RdmaUse;
  /** Why no read goes over RDMA now; '' where reads can, and where it is off. */
  reason: string;
  ports: RdmaPort[];
  /** Ports that cannot be used; '' stands for all of them. */
  refused: { port: string; reason: string }[];
}

/** Of reads over RDMA from and by one other agent, since the start. */
export interface RdmaPeerStatistics {
  /** The port that reads from it use now; '' for none. */
  port: string;
  /** Why there is none; '' where RDMA is off here. */
  reason: string;
  requests: bigint;
  bytesReceived: bigint;
  bytesSent: bigint;
  /** How often the connection has failed; what was under way went over TCP. */
  failures: bigint;
}

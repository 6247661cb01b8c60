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
  /** Bytes are written into the reader's memory; else they come in messages and are copied. */
  hasWindows: boolean;
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
  /** The ports that reads from it use now, as `mlx5_0/1, mlx5_1/1`; '' for none. */
  port: string;
  /** Why there is none; '' where RDMA is off here. */
  reason: string;
  requests: bigint;
  bytesReceived: bigint;
  bytesSent: bigint;
  /** How often the connection has failed; what was under way went over TCP. */
  failures: bigint;
  /** One for each port of ours. */
  rails: RdmaRailStatistics[];
}

/** Transfers between one other agent and this one over one port of ours, since the start. */
export interface RdmaRailStatistics {
  /** `mlx5_0/1`. */
  port: string;
  /** Our reads go over it now. */
  usable: boolean;
  /** Why not, or why it was not before; '' while it has not been wanted. */
  reason: string;
  /** Our reads. */
  requests: bigint;
  bytesReceived: bigint;
  /** Reads of the other agent. */
  answers: bigint;
  bytesSent: bigint;
  /** The bytes sent, by where the device has read them: where they lie in memory for chunks, or in copies. */
  bytesInPlace: bigint;
  bytesCopied: bigint;
  /** Our reads that failed here and were asked for again elsewhere. */
  retries: bigint;
  /** How often the port was given nothing more, and how often because its connection had failed. */
  pauses: bigint;
  failures: bigint;
  /** Connections that were closed because nothing went over them. */
  idleCloses: bigint;
  /** Of our reads, as measured last; 0 before. */
  bytesPerSecond: number;
  /** Of our reads that have succeeded. */
  latency: LatencyHistogram;
}

export interface LatencyHistogram {
  /** Entry n counts what took less than 2^n microseconds and is in no lower entry; the last one all that took longer, too. */
  counts: number[];
  /** All of it together. */
  seconds: number;
}

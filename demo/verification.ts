import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { MountRecord } from '@hearth/common/generated/hearth/v1/control.ts';
import type { AgentClient } from '../cli/src/client/agent_client.ts';

const readBytes = 4 * 1024 ** 2;

export interface FileToVerify {
  path: string;
  size: bigint;
  /** On the node, before it is read. */
  residentBytes: bigint;
}

/** One file read on one node. */
export interface Verified {
  path: string;
  size: bigint;
  node: string;
  dataPath: string;
  originBytes: bigint;
  peerBytes: bigint;
  localBytes: bigint;
  /** Of the reads alone, without comparing. */
  seconds: number;
  /** Empty when every byte is the origin's. */
  problem: string;
}

/** The right content of a file: a file of the origin's directory, or the digest of the bytes that the origin sent. */
export type Truth = { kind: 'directory'; root: string } | { kind: 'digests'; sha256: Map<string, string> };

export interface MountedNode {
  node: string;
  mount: string;
  client: AgentClient;
  /** `host:port` of the agent's metrics. */
  health: string;
}

/** Reads files one after the other through a node's mount and compares every byte. */
export async function* verifyMount(
  node: MountedNode,
  files: FileToVerify[],
  truth: Truth,
  signal: AbortSignal,
): AsyncGenerator<Verified> {
  for (const file of files) {
    signal.throwIfAborted();
    const before = await observe(node);
    const outcome = await compare(join(node.mount, file.path), file, truth, signal).catch((error: Error) => {
      signal.throwIfAborted();
      return { seconds: 0, problem: `cannot be read: ${error.message}` };
    });
    const after = await observe(node);
    // Reading ahead fetches what follows the file too, so only what was missing of it is its own.
    const missing = file.size - file.residentBytes;
    const originBytes = atMost(after.originBytes - before.originBytes, missing);
    const peerBytes = atMost(after.peerBytes - before.peerBytes, missing - originBytes);
    const localBytes = file.size - originBytes - peerBytes;
    const dataPath = pathOf(before.mount, after.mount);
    const { path, size } = file;
    yield { path, size, ...outcome, node: node.node, dataPath, originBytes, peerBytes, localBytes };
  }
}

/** Reads files through the engine where no mount is possible; `mode` is that of the control API. */
export async function* verifyEngine(
  client: AgentClient,
  node: string,
  dataset: string,
  truth: Map<string, string>,
): AsyncGenerator<Verified & { sha256: string }> {
  let began = performance.now();
  const mode = truth.size === 0 ? 'origin' : 'cache';
  for await (const file of client.stream('verify', { dataset, paths: [], mode })) {
    const seconds = (performance.now() - began) / 1000;
    const differs = mode === 'cache' && file.ok && truth.get(file.path) !== file.sha256;
    const problem = file.ok ? (differs ? 'differs from what the other agent read' : '') : file.message;
    const { path, sha256, originBytes, peerBytes, localBytes } = file;
    yield {
      path,
      sha256,
      size: file.bytes,
      node,
      dataPath: 'engine',
      originBytes,
      peerBytes,
      localBytes,
      seconds,
      problem,
    };
    began = performance.now();
  }
}

async function compare(
  path: string,
  file: FileToVerify,
  truth: Truth,
  signal: AbortSignal,
): Promise<{ seconds: number; problem: string }> {
  const mounted = await open(path);
  const original = truth.kind === 'directory' ? await open(join(truth.root, file.path)) : undefined;
  const hash = original === undefined ? createHash('sha256') : undefined;
  try {
    const buffers = { mounted: Buffer.allocUnsafe(readBytes), original: Buffer.allocUnsafe(readBytes) };
    let offset = 0;
    let milliseconds = 0;
    for (;;) {
      signal.throwIfAborted();
      const began = performance.now();
      const got = await fill(mounted, buffers.mounted, offset);
      milliseconds += performance.now() - began;
      const data = buffers.mounted.subarray(0, got);
      const seconds = milliseconds / 1000;
      if (original !== undefined) {
        const expected = buffers.original.subarray(0, await fill(original, buffers.original, offset));
        if (!data.equals(expected)) return { seconds, problem: firstDifference(data, expected, offset) };
      }
      hash?.update(data);
      offset += got;
      if (got < readBytes) return { seconds, problem: ending(file, offset, truth, hash) };
    }
  } finally {
    await mounted.close();
    await original?.close();
  }
}

function ending(file: FileToVerify, length: number, truth: Truth, hash: Hash | undefined): string {
  if (BigInt(length) !== file.size) return `has ${length} bytes instead of ${file.size}`;
  if (truth.kind === 'directory') return '';
  return truth.sha256.get(file.path) === hash?.digest('hex') ? '' : 'has another SHA-256 than what the origin sent';
}

/** Short only at the end of the file. */
async function fill(file: FileHandle, buffer: Buffer, offset: number): Promise<number> {
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, offset + filled);
    if (bytesRead === 0) break;
    filled += bytesRead;
  }
  return filled;
}

function firstDifference(data: Buffer, expected: Buffer, offset: number): string {
  const common = Math.min(data.length, expected.length);
  let index = 0;
  while (index < common && data[index] === expected[index]) index += 1;
  if (index === common) return `ends at another byte than the origin's file (${offset + common})`;
  return `differs from the origin at byte ${offset + index}`;
}

interface Observation {
  originBytes: bigint;
  peerBytes: bigint;
  mount: MountRecord | undefined;
}

/** The engine's counters now. `getStatus` would give what was published last. */
async function observe(node: MountedNode): Promise<Observation> {
  const [response, { mounts }] = await Promise.all([
    fetch(`http://${node.health}/metrics`),
    node.client.call('listMounts', {}),
  ]);
  const metrics = await response.text();
  const counter = (name: string) => BigInt(new RegExp(`^${name} (\\d+)$`, 'm').exec(metrics)?.[1] ?? 0);
  return {
    originBytes: counter('hearth_origin_bytes_total'),
    peerBytes: counter('hearth_peer_received_bytes_total'),
    mount: mounts.find((mount) => mount.target === node.mount),
  };
}

/** The data path of the opens between two observations; the agent does not see opens of a view. */
function pathOf(before: MountRecord | undefined, after: MountRecord | undefined): string {
  if (before === undefined || after === undefined) return 'not mounted';
  if (after.passthroughOpens > before.passthroughOpens) return 'passthrough';
  if (after.daemonOpens > before.daemonOpens) return 'daemon';
  return after.dataPath;
}

function atMost(value: bigint, most: bigint): bigint {
  return value < 0n ? 0n : value > most ? most : value;
}

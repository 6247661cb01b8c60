import { readFileSync } from 'node:fs';

/** Processor time of a process and its threads, s. */
export function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Memory that the process has held at most so far, MiB. */
export function peakMiB(pid: number): number {
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}

export interface EtcdCounters {
  /** Of the log, which every write passes. */
  bytesWritten: number;
  databaseBytes: number;
  /** By name of the call, without watches. */
  requests: Record<string, number>;
}

/** `endpoint`: HOST:PORT of etcd's clients, without TLS. */
export async function etcdCounters(endpoint: string): Promise<EtcdCounters> {
  const text = await (await fetch(`http://${endpoint}/metrics`)).text();
  const value = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1] ?? Number.NaN);
  const requests: Record<string, number> = {};
  for (const [, call = '', count] of text.matchAll(
    /^grpc_server_msg_received_total\{grpc_method="(\w+)".*\} (\S+)$/gm,
  )) {
    if (Number(count) > 0) requests[call] = Number(count);
  }
  const bytesWritten = value('etcd_disk_wal_write_bytes_total') || value('etcd_disk_wal_write_bytes');
  return { bytesWritten, databaseBytes: value('etcd_mvcc_db_total_size_in_bytes'), requests };
}

/** Of numbers; NaN of none. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil((sorted.length * percent) / 100) - 1)] ?? Number.NaN;
}

import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DaemonProcess, freePort, until } from '@hearth/common/testing';

/** A member of a real etcd on loopback, single unless made by `cluster`, with a data folder of its own. */
export class EtcdServer {
  readonly #program: string;
  readonly #folder = mkdtempSync(join(tmpdir(), 'hearth-etcd-'));
  readonly #extra: readonly string[];
  #port = 0;
  #peerPort = 0;
  #process: DaemonProcess | undefined;
  #cluster: readonly EtcdServer[] = [this];

  constructor(program: string, extra: readonly string[] = []) {
    this.#program = program;
    this.#extra = extra;
  }

  /** Members of one cluster, which must be started concurrently. */
  static async cluster(program: string, size: number): Promise<EtcdServer[]> {
    const members = Array.from({ length: size }, () => new EtcdServer(program));
    for (const member of members) {
      member.#cluster = members;
      await member.#choosePorts();
    }
    return members;
  }

  get endpoint(): string {
    return `127.0.0.1:${this.#port}`;
  }

  /** Starts on the former ports, or on free ones; resolves when clients are served. */
  async start(): Promise<void> {
    await this.#choosePorts();
    const scheme = this.#extra.some((flag) => flag.startsWith('--cert-file')) ? 'https' : 'http';
    const client = `${scheme}://${this.endpoint}`;
    const peer = this.#peerUrl;
    // Short, so that etcd grants leases of one second as requested; among several members a busy machine would lose its
    // leader.
    const [heartbeatMs, electionMs] = this.#cluster.length === 1 ? [10, 100] : [100, 1000];
    const started = new DaemonProcess(this.#program, [
      `--data-dir=${join(this.#folder, 'data')}`,
      `--listen-client-urls=${client}`,
      `--advertise-client-urls=${client}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--name=${this.#peerPort}`,
      `--initial-cluster=${this.#cluster.map((member) => `${member.#peerPort}=${member.#peerUrl}`).join()}`,
      `--heartbeat-interval=${heartbeatMs}`,
      `--election-timeout=${electionMs}`,
      '--unsafe-no-fsync',
      ...this.#extra,
    ]);
    this.#process = started;
    await started.until('etcd serves', () => started.said.stderr.includes('ready to serve client requests'));
  }

  get #peerUrl(): string {
    return `http://127.0.0.1:${this.#peerPort}`;
  }

  async #choosePorts(): Promise<void> {
    this.#port ||= await freePort();
    this.#peerPort ||= await freePort();
  }

  /** Simulates a power loss. */
  async kill(): Promise<void> {
    const running = this.#process;
    this.#process = undefined;
    await running?.end();
  }

  /**
   * Suspends the process. Resolves when all threads have stopped, because on a busy machine some run on for tens of
   * milliseconds after the signal and could still answer a request.
   */
  async pause(): Promise<void> {
    const pid = this.#process?.pid;
    if (pid === undefined) return;
    process.kill(pid, 'SIGSTOP');
    await until('all threads stand', () => allThreadsStand(pid));
  }

  resume(): void {
    this.#process?.child.kill('SIGCONT');
  }

  async restart(): Promise<void> {
    await this.kill();
    await this.start();
  }

  /** From now on etcd serves only the user root with this password. */
  async demandPassword(password: string): Promise<void> {
    const calls: [string, object][] = [
      ['user/add', { name: 'root', password }],
      ['role/add', { name: 'root' }],
      ['user/grant', { user: 'root', role: 'root' }],
      ['enable', {}],
    ];
    for (const [call, body] of calls) {
      const response = await fetch(`http://${this.endpoint}/v3/auth/${call}`, {
        method: 'POST',
        body: JSON.stringify(body),
      });
      if (!response.ok) throw new Error(`${call}: ${response.status} ${await response.text()}`);
    }
  }

  /** Ends the process and deletes its data; the next start is an empty etcd at the same address. */
  async erase(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** True when every thread of the process is in the state T of proc(5), stopped by a signal. */
function allThreadsStand(pid: number): boolean {
  const folder = `/proc/${pid}/task`;
  return readdirSync(folder).every((thread) => {
    const line = readFileSync(join(folder, thread, 'stat'), 'utf8');
    // The name before the state is in brackets and may contain any character.
    return line.slice(line.lastIndexOf(')') + 2).startsWith('T');
  });
}

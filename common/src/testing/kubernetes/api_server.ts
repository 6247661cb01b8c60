import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Context } from 'mocha';
import { Authority, type KeyPair } from '../authority.ts';
import { type Outcome, run } from '../command.ts';
import { DaemonProcess } from '../daemon_process.ts';
import { freePorts } from '../free_port.ts';
import { needsPrograms } from '../needs.ts';
import { tools } from '../tool.ts';
import { writeKubeconfig } from './kubeconfig.ts';
import { apiServerReady } from './readiness.ts';

/**
 * etcd and kube-apiserver alone, on free ports of loopback: every object can be created, watched and validated, and
 * nothing acts on them (no controllers, no nodes; the admission of service accounts is off, since nothing makes them).
 * Both end with this process. Throws ToolUnavailable where the programs cannot be built.
 *
 *     const server = await TestApiServer.start();
 *     const config = new KubeConfig(); config.loadFromFile(server.kubeconfig);
 *     await server.stop();
 */
export class TestApiServer implements AsyncDisposable {
  readonly folder: string;
  /** `https://127.0.0.1:PORT`, unchanged after `restart`. */
  readonly url: string;
  /** Path of an administrator's kubeconfig. */
  readonly kubeconfig: string;
  readonly #authority: Authority;
  readonly #admin: KeyPair;
  readonly #programs: Record<string, string>;
  /** Ports of etcd for clients and metrics, HTTP on loopback. */
  readonly etcdPort: number;
  readonly #arguments: string[];
  #etcd: DaemonProcess | undefined;
  #server: DaemonProcess | undefined;

  private constructor(
    folder: string,
    authority: Authority,
    admin: KeyPair,
    programs: Record<string, string>,
    ports: { server: number; etcd: number },
    args: string[],
  ) {
    this.folder = folder;
    this.url = `https://127.0.0.1:${ports.server}`;
    this.kubeconfig = writeKubeconfig(join(folder, 'kubeconfig'), this.url, admin);
    this.#authority = authority;
    this.#admin = admin;
    this.#programs = programs;
    this.etcdPort = ports.etcd;
    this.#arguments = args;
  }

  /** `args`: further arguments of kube-apiserver. The first start on a machine builds the programs. */
  static async start(options: { args?: string[] } = {}): Promise<TestApiServer> {
    const programs = await tools(['etcd', 'kube-apiserver', 'kubectl']);
    const folder = mkdtempSync(join(tmpdir(), 'hearth-apiserver-'));
    try {
      const authority = Authority.create({ folder: join(folder, 'pki') });
      const server = authority.issue({ commonName: 'kube-apiserver', names: ['127.0.0.1', 'localhost'] });
      const admin = authority.issue({ commonName: 'admin', organizations: ['system:masters'] });
      const accounts = authority.serviceAccountKeys();
      const [serverPort = 0, etcdPort = 0, peerPort = 0] = await freePorts(3);
      const args = [
        `--etcd-servers=http://127.0.0.1:${etcdPort}`,
        '--bind-address=127.0.0.1',
        '--advertise-address=127.0.0.1',
        `--secure-port=${serverPort}`,
        // The reconciler refuses to publish a loopback address as the service `kubernetes`, which nothing here uses.
        '--endpoint-reconciler-type=none',
        '--service-cluster-ip-range=10.96.0.0/16',
        `--tls-cert-file=${server.certificate}`,
        `--tls-private-key-file=${server.key}`,
        `--client-ca-file=${authority.certificate}`,
        '--service-account-issuer=https://kubernetes.default.svc',
        `--service-account-key-file=${accounts.publicKey}`,
        `--service-account-signing-key-file=${accounts.privateKey}`,
        '--authorization-mode=RBAC',
        '--disable-admission-plugins=ServiceAccount',
        '--allow-privileged=true',
        ...(options.args ?? []),
      ];
      const made = new TestApiServer(folder, authority, admin, programs, { server: serverPort, etcd: etcdPort }, args);
      try {
        await made.#start(peerPort);
      } catch (error) {
        await made.stop();
        throw error;
      }
      return made;
    } catch (error) {
      rmSync(folder, { recursive: true, force: true });
      throw error;
    }
  }

  async #start(peerPort: number): Promise<void> {
    const client = `http://127.0.0.1:${this.etcdPort}`;
    const peer = `http://127.0.0.1:${peerPort}`;
    this.#etcd = this.#spawn('etcd', [
      `--data-dir=${join(this.folder, 'etcd')}`,
      `--listen-client-urls=${client}`,
      `--advertise-client-urls=${client}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=default=${peer}`,
      '--unsafe-no-fsync',
      '--log-level=warn',
    ]);
    await this.up();
  }

  /** Kills the API server; etcd keeps running. Clients see connection resets. */
  async down(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    await server?.end();
  }

  /** Starts the API server on the same address with the same objects and waits until ready. */
  async up(): Promise<void> {
    if (this.#server) return;
    const server = this.#spawn('kube-apiserver', this.#arguments);
    this.#server = server;
    await server.until('kube-apiserver is ready', () => apiServerReady(this.url, this.#admin));
  }

  async restart(): Promise<void> {
    await this.down();
    await this.up();
  }

  /** Compacts etcd, so that continuing an older list or watch fails with 410. */
  async compact(): Promise<void> {
    const call = async (path: string, body: object) => {
      const response = await fetch(`http://127.0.0.1:${this.etcdPort}/v3/kv/${path}`, {
        method: 'POST',
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(300_000),
      });
      if (!response.ok) throw new Error(`etcd ${path}: ${response.status} ${await response.text()}`);
      return (await response.json()) as { header: { revision: string } };
    };
    const { header } = await call('range', { key: Buffer.from('/').toString('base64'), keys_only: true });
    await call('compaction', { revision: header.revision, physical: true });
  }

  /** Writes a kubeconfig of another user, whose rights come from RBAC objects. Returns its path. */
  userKubeconfig(user: string, groups: readonly string[] = []): string {
    const file = `user-${user.replace(/[^a-z0-9]+/gi, '-')}`;
    const pair = this.#authority.issue({ file, commonName: user, organizations: groups });
    return writeKubeconfig(join(this.folder, `${file}.kubeconfig`), this.url, pair);
  }

  /** Runs kubectl as administrator. */
  kubectl(args: string[], options: { input?: string; timeoutMs?: number } = {}): Promise<Outcome> {
    const own = ['--kubeconfig', this.kubeconfig, '--cache-dir', join(this.folder, 'kubectl')];
    return run(this.#programs.kubectl as string, [...own, ...args], options);
  }

  /** The output of etcd or kube-apiserver. */
  log(program: 'etcd' | 'kube-apiserver'): string {
    return readFileSync(join(this.folder, `${program}.log`), 'utf8');
  }

  /** Ends both programs and removes the folder. Idempotent. */
  async stop(): Promise<void> {
    await this.down();
    await this.#etcd?.end();
    this.#etcd = undefined;
    rmSync(this.folder, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #spawn(program: string, args: string[]): DaemonProcess {
    return new DaemonProcess(this.#programs[program] as string, args, { log: join(this.folder, `${program}.log`) });
  }
}

/** An API server for a suite; skips the suite where Kubernetes cannot be built. */
export async function startApiServer(context: Context): Promise<TestApiServer> {
  return await needsPrograms(context, () => TestApiServer.start());
}

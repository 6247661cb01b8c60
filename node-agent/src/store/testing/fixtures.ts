import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Authority, findTool } from '@hearth/common/testing';
import type { BootClockFiles } from '../boot_clock.ts';
import { EtcdServer } from './etcd_server.ts';

/** A fixture for a suite that runs against every kind of store. */
export interface StoreFixture {
  readonly name: string;
  /** Returns undefined when tests can run, else the reason. */
  start(): Promise<string | undefined>;
  stop(): Promise<void>;
  /** The address of a new, empty store. */
  freshAddress(): string;
  /** Kills and restarts the server; no effect for a store without one. */
  restart(): Promise<void>;
}

export function sqliteFixture(): StoreFixture {
  let folder = '';
  let count = 0;
  return {
    name: 'sqlite',
    start: async () => {
      folder = mkdtempSync(join(tmpdir(), 'hearth-store-'));
      return undefined;
    },
    stop: async () => rmSync(folder, { recursive: true, force: true }),
    freshAddress: () => `sqlite:${join(folder, `${++count}.db`)}`,
    restart: async () => undefined,
  };
}

/** One real server, with a space for every test. */
export function etcdFixture(): StoreFixture {
  let server: EtcdServer | undefined;
  let count = 0;
  return {
    name: 'etcd',
    start: async () => {
      const found = await findTool('etcd');
      if ('missing' in found) return found.missing;
      server = new EtcdServer(found.program);
      await server.start();
      return undefined;
    },
    stop: async () => server?.erase(),
    freshAddress: () => `etcd://${server?.endpoint}/test-${++count}`,
    restart: async () => server?.restart(),
  };
}

/** Like `etcdFixture`, with mutual TLS. */
export function etcdTlsFixture(): StoreFixture {
  let server: EtcdServer | undefined;
  let authority: Authority | undefined;
  let client = '';
  let count = 0;
  return {
    name: 'etcd over TLS',
    start: async () => {
      const found = await findTool('etcd');
      if ('missing' in found) return found.missing;
      authority = Authority.create();
      const own = authority.issue({ names: ['etcd.test.hearth'] });
      const { certificate, key, authorities } = authority.issue({ names: ['agent.test.hearth'] });
      client = new URLSearchParams({
        ca: authorities,
        cert: certificate,
        key,
        serverName: 'etcd.test.hearth',
      }).toString();
      const files = [`--cert-file=${own.certificate}`, `--key-file=${own.key}`, `--trusted-ca-file=${own.authorities}`];
      server = new EtcdServer(found.program, [...files, '--client-cert-auth']);
      await server.start();
      return undefined;
    },
    stop: async () => {
      await server?.erase();
      authority?.remove();
    },
    freshAddress: () => `etcd://${server?.endpoint}/test-${++count}?${client}`,
    restart: async () => server?.restart(),
  };
}

/** A simulated boot: files in the form of the kernel's. */
export class TestBoot {
  readonly files: BootClockFiles;
  #ms = 5_000;

  constructor(folder: string) {
    this.files = { uptime: join(folder, 'uptime'), bootId: join(folder, 'boot_id') };
    this.advance(0);
    this.reboot('first');
  }

  advance(ms: number): void {
    this.#ms += ms;
    writeFileSync(this.files.uptime, `${(this.#ms / 1000).toFixed(2)} 1.00\n`);
  }

  reboot(id: string): void {
    writeFileSync(this.files.bootId, `${id}\n`);
  }
}

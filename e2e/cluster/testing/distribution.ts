import { writeFileSync } from 'node:fs';
import { start, TemporaryFolder, tool, until } from '@hearth/common/testing';

/** The registry of the CNCF's project distribution, a process on loopback without a password, until disposed of. */
export class Distribution implements AsyncDisposable {
  /** `HOST:PORT` */
  readonly host: string;
  readonly #folder: TemporaryFolder;
  readonly #server: ReturnType<typeof start>;

  private constructor(host: string, folder: TemporaryFolder, server: ReturnType<typeof start>) {
    this.host = host;
    this.#folder = folder;
    this.#server = server;
  }

  /** Throws ToolUnavailable where its program cannot be built. */
  static async start(): Promise<Distribution> {
    const program = await tool('registry');
    const folder = new TemporaryFolder('registry');
    const storage = { filesystem: { rootdirectory: folder.file('store') } };
    const configuration = { version: 0.1, log: { level: 'info' }, storage, http: { addr: '127.0.0.1:0' } };
    writeFileSync(folder.file('config.yml'), JSON.stringify(configuration));
    const server = start(program, ['serve', folder.file('config.yml')], {
      environment: { OTEL_TRACES_EXPORTER: 'none' },
      timeoutMs: Number.POSITIVE_INFINITY,
    });
    const host = await until('the registry listens', () => {
      if (server.child.exitCode !== null) throw new Error(server.said.stderr);
      return /listening on (127\.0\.0\.1:\d+)/.exec(server.said.stdout + server.said.stderr)?.[1];
    });
    return new Distribution(host, folder, server);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.child.kill();
    await this.#server.outcome;
    await this.#folder.remove();
  }
}

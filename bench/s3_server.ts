import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from './cluster.ts';
import { root, run } from './command.ts';

/** Of all servers of this process, as agents take them from its environment; made for it. */
const keys = {
  accessKeyId: `AK${randomBytes(8).toString('hex')}`,
  secretAccessKey: randomBytes(20).toString('hex'),
};

/** A real S3 server (versitygw) on loopback over a folder. It keeps connections, as S3 does. */
export class S3Server {
  readonly endpoint: string;
  readonly keys = keys;
  readonly #child: ChildProcess;
  readonly #killAtExit = (): void => void this.#child.kill('SIGKILL');

  private constructor(endpoint: string, child: ChildProcess) {
    this.endpoint = endpoint;
    this.#child = child;
    process.once('exit', this.#killAtExit);
  }

  static async start(directory: string): Promise<S3Server> {
    const program = (await run(process.execPath, [join(root, 'scripts/tools/get.ts'), 'versitygw'])).trim();
    mkdirSync(directory, { recursive: true });
    const address = `127.0.0.1:${await freePort()}`;
    const child = spawn(program, ['--port', address, '--quiet', '--keep-alive', 'posix', directory], {
      env: { PATH: process.env.PATH, ROOT_ACCESS_KEY: keys.accessKeyId, ROOT_SECRET_KEY: keys.secretAccessKey },
      stdio: 'ignore',
    });
    const server = new S3Server(`http://${address}`, child);
    for (let tries = 0; tries < 200; ++tries) {
      const signal = AbortSignal.timeout(1000);
      const answers = await fetch(server.endpoint, { signal }).then(
        () => true,
        () => false,
      );
      if (answers) return server;
      if (child.exitCode !== null) break;
      await sleep(50);
    }
    await server.stop();
    throw new Error('the S3 server did not start');
  }

  async stop(): Promise<void> {
    process.off('exit', this.#killAtExit);
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGKILL');
    await ended;
  }
}

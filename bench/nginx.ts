import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from './cluster.ts';
import { commandAt, type Place } from './network.ts';

/** An nginx, on loopback or in a place of its own, that serves one folder and counts the bytes it sends. */
export class Nginx {
  readonly url: string;
  readonly #log: string;
  readonly #child: ChildProcess;
  readonly #killAtExit = (): void => {
    this.#child.kill('SIGKILL');
  };

  private constructor(url: string, log: string, child: ChildProcess) {
    this.url = url;
    this.#log = log;
    this.#child = child;
    process.once('exit', this.#killAtExit);
  }

  static async start(directory: string, served: string, place?: Place): Promise<Nginx> {
    mkdirSync(directory, { recursive: true });
    const address = `${place?.address ?? '127.0.0.1'}:${await freePort()}`;
    const log = join(directory, 'access.log');
    const configuration = join(directory, 'nginx.conf');
    writeFileSync(
      configuration,
      `daemon off; pid ${directory}/nginx.pid; error_log ${directory}/error.log; worker_processes 2; user root;
       events { worker_connections 1024; }
       http {
         log_format bytes '$body_bytes_sent'; access_log ${log} bytes;
         sendfile on; keepalive_requests 1000000; client_body_temp_path ${directory}/body;
         server { listen ${address}; root ${served}; }
       }\n`,
    );
    const args = ['-c', configuration, '-p', directory, '-e', join(directory, 'error.log')];
    const child = spawn(...commandAt(place, 'nginx', args), { stdio: 'ignore' });
    child.on('error', () => {}); // reported below
    for (let tries = 0; !existsSync(join(directory, 'nginx.pid')); ++tries) {
      if (child.exitCode !== null || child.pid === undefined || tries > 200) {
        const file = join(directory, 'error.log');
        const reason = existsSync(file) ? readFileSync(file, 'utf8') : 'it cannot be run; apt-get install nginx-light';
        throw new Error(`nginx did not start: ${reason}`);
      }
      await sleep(50);
    }
    return new Nginx(`http://${address}`, log, child);
  }

  /** Bytes of bodies sent so far, by requests that have ended. */
  async bytesSent(): Promise<number> {
    let sum = 0;
    for await (const line of createInterface({ input: createReadStream(this.#log) })) sum += Number(line);
    return sum;
  }

  get ended(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  async stop(): Promise<void> {
    process.off('exit', this.#killAtExit);
    if (this.ended) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    if ((await Promise.race([ended, sleep(5000)])) === undefined) this.#child.kill('SIGKILL');
  }
}

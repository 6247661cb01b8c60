import { createReadStream, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DaemonProcess } from '../daemon_process.ts';
import { freePort } from '../free_port.ts';

/** An nginx, on loopback or behind a launcher, that serves one folder and counts bytes sent. */
export class Nginx {
  readonly url: string;
  readonly #log: string;
  readonly #program: DaemonProcess;

  private constructor(url: string, log: string, program: DaemonProcess) {
    this.url = url;
    this.#log = log;
    this.#program = program;
  }

  /** `folder`: for nginx's own files. `launcher`: a program with arguments that runs nginx where `address` exists. */
  static async start(
    folder: string,
    served: string,
    { launcher = [], address = '127.0.0.1' }: { launcher?: readonly string[]; address?: string } = {},
  ): Promise<Nginx> {
    mkdirSync(folder, { recursive: true });
    const host = `${address}:${await freePort()}`;
    const [log, errors] = [join(folder, 'access.log'), join(folder, 'error.log')];
    const configuration = join(folder, 'nginx.conf');
    writeFileSync(
      configuration,
      `daemon off; pid ${folder}/nginx.pid; error_log ${errors}; worker_processes 2; user root;
       events { worker_connections 1024; }
       http {
         log_format bytes '$body_bytes_sent'; access_log ${log} bytes;
         sendfile on; keepalive_requests 1000000; client_body_temp_path ${folder}/body;
         server { listen ${host}; root ${served}; }
       }\n`,
    );
    const [program = '', ...words] = [...launcher, 'nginx', '-c', configuration, '-p', folder, '-e', errors];
    const running = new DaemonProcess(program, words, { log: errors });
    await running.until('nginx serves (the package nginx-light)', () => existsSync(join(folder, 'nginx.pid')));
    return new Nginx(`http://${host}`, log, running);
  }

  /** Bytes of response bodies sent so far by completed requests. */
  async bytesSent(): Promise<number> {
    let sum = 0;
    for await (const line of createInterface({ input: createReadStream(this.#log) })) sum += Number(line);
    return sum;
  }

  get ended(): boolean {
    return this.#program.ended !== undefined;
  }

  async stop(): Promise<void> {
    await this.#program.end('SIGTERM');
  }
}

import { randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { DaemonProcess } from '../daemon_process.ts';
import { freePort } from '../free_port.ts';
import { TemporaryFolder } from '../temporary_folder.ts';
import { tool } from '../tool.ts';

export interface S3Keys {
  accessKeyId: string;
  secretAccessKey: string;
}

export interface S3Settings {
  /** The address at which it listens; loopback unless given. */
  host?: string;
  /** Where its objects are, which stays; unless given a temporary one, with versions of objects. */
  folder?: string;
  /** Connections are kept, as S3 does; else each is closed after its answer. */
  keepAlive?: boolean;
  /** Made for it unless given. */
  keys?: S3Keys;
}

export function makeKeys(): S3Keys {
  return { accessKeyId: `AK${randomBytes(8).toString('hex')}`, secretAccessKey: randomBytes(20).toString('hex') };
}

/** A real S3 server (versitygw). */
export class S3Server {
  readonly endpoint: string;
  readonly keys: S3Keys;
  readonly #folder: TemporaryFolder | undefined;
  readonly #program: DaemonProcess;

  private constructor(endpoint: string, keys: S3Keys, program: DaemonProcess, folder: TemporaryFolder | undefined) {
    this.endpoint = endpoint;
    this.keys = keys;
    this.#folder = folder;
    this.#program = program;
  }

  /** Throws ToolUnavailable where the program cannot be built. */
  static async start(settings: S3Settings = {}): Promise<S3Server> {
    const { host = '127.0.0.1', folder: given, keepAlive = false, keys = makeKeys() } = settings;
    const program = await tool('versitygw');
    const folder = given === undefined ? new TemporaryFolder('s3') : undefined;
    const data = folder?.file('data') ?? given ?? '';
    const versions = folder === undefined ? [] : ['--versioning-dir', folder.file('versions')];
    for (const path of [data, ...versions.slice(1)]) mkdirSync(path, { recursive: true });
    const address = `${host}:${await freePort(host)}`;
    const flags = ['--port', address, '--quiet', ...(keepAlive ? ['--keep-alive'] : [])];
    const running = new DaemonProcess(program, [...flags, 'posix', ...versions, data], {
      environment: { ROOT_ACCESS_KEY: keys.accessKeyId, ROOT_SECRET_KEY: keys.secretAccessKey },
    });
    const server = new S3Server(`http://${address}`, keys, running, folder);
    try {
      await running.until('the S3 server answers', () =>
        fetch(server.endpoint, { signal: AbortSignal.timeout(1000) }).then(
          () => true,
          () => false,
        ),
      );
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  /** By which programs may read it, as it is usual for them. */
  get environment(): Record<string, string> {
    const { accessKeyId, secretAccessKey } = this.keys;
    return { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, AWS_REGION: 'us-east-1' };
  }

  async stop(): Promise<void> {
    await this.#program.end();
    await this.#folder?.remove();
  }
}

import { join } from 'node:path';
import { tool } from '@hearth/common/testing';
import { makeKeys, type S3Keys, S3Server } from '@hearth/common/testing/origins';
import { run } from './command.ts';

/** Of all servers of this process, as agents take them from its environment. */
const keys = makeKeys();
const region = 'us-east-1';
const name = 'bench';
const folder = 'data';
/** In one part each, so that each object is one file of the server's. */
const partMiB = 4096;

/** A bucket of a real S3 server (versitygw) on loopback that keeps connections, with the files of one folder. */
export class S3Bucket {
  readonly name = name;
  readonly folder = folder;
  readonly region = region;
  readonly #server: S3Server;
  readonly #client: string;

  private constructor(server: S3Server, client: string) {
    this.#server = server;
    this.#client = client;
  }

  /** `folder`: where its objects are; on tmpfs too, which has extended attributes since Linux 6.6. */
  static async start(folder: string): Promise<S3Bucket> {
    const client = await tool('s5cmd');
    const bucket = new S3Bucket(await S3Server.start({ folder, keepAlive: true, keys }), client);
    Object.assign(process.env, bucket.environment);
    return bucket;
  }

  get endpoint(): string {
    return this.#server.endpoint;
  }

  get keys(): S3Keys {
    return this.#server.keys;
  }

  /** By which programs may read it, as it is usual for them. */
  get environment(): Record<string, string> {
    return this.#server.environment;
  }

  /** As `hearth dataset add` takes it behind the name of the dataset. */
  get source(): string[] {
    return [`s3://${name}/${folder}`, '--endpoint', this.endpoint, '--region', region, '--allow-private'];
  }

  /** All of them, as s5cmd takes them. */
  get objects(): string {
    return `s3://${name}/${folder}/*`;
  }

  /** Arguments of curl that make it fetch a file of the folder. */
  curlWords(file: string): string[] {
    const { accessKeyId, secretAccessKey } = this.keys;
    const signed = ['--aws-sigv4', `aws:amz:${region}:s3`, '--user', `${accessKeyId}:${secretAccessKey}`];
    const unread = ['-H', 'x-amz-content-sha256: UNSIGNED-PAYLOAD'];
    return [...signed, ...unread, `${this.endpoint}/${name}/${folder}/${file}`];
  }

  /** All files of a folder of this machine. */
  async upload(from: string): Promise<void> {
    await this.s5cmd('mb', `s3://${name}`);
    await this.s5cmd('cp', '--part-size', String(partMiB), join(from, '*'), `s3://${name}/${folder}/`);
  }

  /** Its output. */
  async s5cmd(...words: string[]): Promise<string> {
    return await run(this.#client, ['--endpoint-url', this.endpoint, ...words]);
  }

  async stop(): Promise<void> {
    await this.#server.stop();
  }
}

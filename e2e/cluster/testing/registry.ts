import { createHash, randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A registry in memory: as much of the OCI distribution specification (1.1) as a push and a pull need. */
export class TestRegistry implements AsyncDisposable {
  /** By digest. */
  readonly blobs = new Map<string, Buffer>();
  /** By `REPOSITORY:TAG` and `REPOSITORY:DIGEST`. */
  readonly manifests = new Map<string, { type: string; bytes: Buffer }>();
  readonly #uploads = new Map<string, Buffer[]>();
  readonly #server: Server;
  readonly #authorization: string;

  private constructor(user: string, password: string) {
    this.#authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`;
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error) => response.writeHead(500).end(String(error)));
    });
  }

  /** One for this user alone. `address`: where it listens; loopback if it is not given. */
  static async start(user: string, password: string, address = '127.0.0.1'): Promise<TestRegistry> {
    const registry = new TestRegistry(user, password);
    await new Promise<void>((done) => registry.#server.listen(0, address, done));
    return registry;
  }

  /** `HOST:PORT` */
  get host(): string {
    const { address, port } = this.#server.address() as AddressInfo;
    return `${address}:${port}`;
  }

  /** Its user's entry of `auths`, as `docker login` writes it. */
  get login(): Record<string, { auth: string }> {
    return { [this.host]: { auth: this.#authorization.replace('Basic ', '') } };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((done) => this.#server.close(done));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = Buffer.concat(await request.toArray());
    if (request.headers.authorization !== this.#authorization) {
      response.writeHead(401, { 'www-authenticate': 'Basic realm="test"' }).end();
      return;
    }
    const url = new URL(request.url ?? '/', 'http://registry');
    const [, repository = '', kind, rest = ''] = /^\/v2\/(.+)\/(blobs|manifests)\/(.+)$/.exec(url.pathname) ?? [];
    if (kind === 'manifests') this.#manifest(request, response, `${repository}:${rest}`, body);
    else if (rest.startsWith('uploads')) this.#upload(request, response, repository, url, body);
    else if (kind === 'blobs') give(request, response, this.blobs.get(rest), 'application/octet-stream');
    else response.writeHead(url.pathname === '/v2/' || url.pathname === '/v2/_catalog' ? 200 : 404).end('{}');
  }

  #manifest(request: IncomingMessage, response: ServerResponse, name: string, bytes: Buffer): void {
    if (request.method !== 'PUT') {
      const found = this.manifests.get(name);
      give(request, response, found?.bytes, found?.type ?? '');
      return;
    }
    const manifest = { type: request.headers['content-type'] ?? '', bytes };
    this.manifests.set(name, manifest);
    this.manifests.set(`${name.slice(0, name.lastIndexOf(':'))}:${digestOf(bytes)}`, manifest);
    response.writeHead(201, { 'docker-content-digest': digestOf(bytes) }).end();
  }

  #upload(request: IncomingMessage, response: ServerResponse, repository: string, url: URL, part: Buffer): void {
    const id = request.method === 'POST' ? randomUUID() : (url.pathname.split('/').at(-1) ?? '');
    const parts = [...(this.#uploads.get(id) ?? []), part];
    this.#uploads.set(id, parts);
    const whole = Buffer.concat(parts);
    const location = `/v2/${repository}/blobs/uploads/${id}`;
    const range = `0-${Math.max(0, whole.length - 1)}`;
    if (request.method !== 'PUT') {
      response.writeHead(202, { location, range, 'docker-upload-uuid': id }).end();
      return;
    }
    const digest = url.searchParams.get('digest') ?? '';
    if (digestOf(whole) !== digest) {
      response.writeHead(400).end();
      return;
    }
    this.blobs.set(digest, whole);
    response.writeHead(201, { location: `/v2/${repository}/blobs/${digest}`, 'docker-content-digest': digest }).end();
  }
}

/** Does something while programs take their logins from a file, which is written. */
export async function withLogins<T>(file: string, auths: TestRegistry['login'], work: () => Promise<T>): Promise<T> {
  const before = process.env.REGISTRY_AUTH_FILE;
  process.env.REGISTRY_AUTH_FILE = file;
  writeFileSync(file, JSON.stringify({ auths }));
  try {
    return await work();
  } finally {
    if (before === undefined) delete process.env.REGISTRY_AUTH_FILE;
    else process.env.REGISTRY_AUTH_FILE = before;
  }
}

const digestOf = (bytes: Buffer) => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

function give(request: IncomingMessage, response: ServerResponse, bytes: Buffer | undefined, type: string): void {
  if (bytes === undefined) {
    response.writeHead(404).end('{}');
    return;
  }
  const headers = { 'content-type': type, 'content-length': bytes.length, 'docker-content-digest': digestOf(bytes) };
  response.writeHead(200, headers).end(request.method === 'HEAD' ? undefined : bytes);
}

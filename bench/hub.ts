import { createHash } from 'node:crypto';
import { createReadStream, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Nginx, type ScriptedServer, sendJson, startServer } from '@hearth/common/testing/origins';

const repo = 'bench/model';
/** Any commit: there is one. */
const commit = 'c0ffee'.padEnd(40, '0');

async function sha256Of(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file, { highWaterMark: 2 ** 20 }), hash);
  return hash.digest('hex');
}

/**
 * A hub with one public repository of large files, as huggingface.co has them: it lists them with their SHA-256, and sends
 * who asks for one to another server, which is nginx, for its bytes.
 */
export class HubOfFolder {
  readonly #api: ScriptedServer;
  readonly #store: Nginx;
  readonly #tree: readonly { path: string; size: number }[];

  private constructor(api: ScriptedServer, store: Nginx, tree: readonly { path: string; size: number }[]) {
    this.#api = api;
    this.#store = store;
    this.#tree = tree;
  }

  /** `folder`: for nginx's own files. `served`: the repository's files, without folders, which stay as they are. */
  static async start(folder: string, served: string): Promise<HubOfFolder> {
    const listed = readdirSync(served).map(async (path) => {
      const { size } = statSync(join(served, path));
      const oid = await sha256Of(join(served, path));
      return { type: 'file', path, size, oid: oid.slice(0, 40), lfs: { oid, size } };
    });
    const tree = await Promise.all(listed);
    const store = await Nginx.start(folder, served);
    const hub = new HubOfFolder(await startServer(), store, tree);
    hub.#serve();
    return hub;
  }

  /** As `hearth dataset add` takes it behind the name of the dataset. */
  get source(): string[] {
    return [`hf://${repo}`, '--endpoint', this.#api.url, '--allow-private'];
  }

  /** Of each file, as a client asks for it that follows redirects. */
  get urls(): string[] {
    return this.#tree.map(({ path }) => `${this.#api.url}/${repo}/resolve/main/${path}`);
  }

  async stop(): Promise<void> {
    await this.#api.stop();
    await this.#store.stop();
  }

  #serve(): void {
    const file = new RegExp(`^/${repo}/resolve/(?:main|${commit})/([^/]+)$`);
    this.#api.handler = (request, response) => {
      const { pathname } = new URL(request.url ?? '', this.#api.url);
      const path = file.exec(pathname)?.[1];
      if (pathname === `/api/models/${repo}/revision/main`) sendJson(response, { sha: commit, siblings: [] });
      else if (pathname === `/api/models/${repo}/tree/${commit}`) sendJson(response, this.#tree);
      else if (path === undefined) response.writeHead(404).end();
      else response.writeHead(302, { location: `${this.#store.url}/${path}` }).end();
    };
  }
}

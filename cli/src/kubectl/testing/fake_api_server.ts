import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { TemporaryFolder } from '@hearth/common/testing';
import { WebSocketServer } from 'ws';

/** API objects by path: `/api/v1/namespaces/team/pods/web`. */
export type Objects = Record<string, { metadata?: { labels?: Record<string, string> } }>;

export interface Executed {
  stdout?: string;
  stderr?: string;
  exit?: number;
}

/**
 * An API server for objects by path: reads, lists (with labels), creates and deletes objects, serves texts at other
 * paths, and runs programs in pods by a function. No authentication.
 */
export class FakeApiServer implements AsyncDisposable {
  readonly objects: Objects;
  /** Texts at other paths, such as logs and metrics. */
  readonly texts: Record<string, () => string> = {};
  /** Plurals of kinds that the user may not read. */
  readonly forbidden = new Set<string>();
  /** `GET /path?query`, in order. */
  readonly requests: string[] = [];
  /** Called for each created object, to set its status. */
  admit: (object: Record<string, unknown>) => object = (object) => object;
  /** Absent: nobody may run programs in pods. */
  execute: ((pod: string, words: string[]) => Executed) | undefined;
  readonly #folder = new TemporaryFolder('fake-api');
  readonly #server: Server;
  readonly #sockets = new WebSocketServer({ noServer: true, handleProtocols: () => 'v5.channel.k8s.io' });

  private constructor(objects: Objects) {
    this.objects = { ...objects };
    this.#server = createServer((request, response) => void this.#answer(request, response));
    this.#server.on('upgrade', (request, socket, head) => {
      const url = this.#note(request);
      const pod = /\/pods\/([^/]+)\/exec$/.exec(url.pathname)?.[1];
      if (pod === undefined || this.execute === undefined) {
        socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n');
        return;
      }
      const { stdout = '', stderr = '', exit = 0 } = this.execute(pod, url.searchParams.getAll('command'));
      this.#sockets.handleUpgrade(request, socket, head, (client) => {
        const send = (channel: number, text: string) =>
          client.send(Buffer.concat([Buffer.of(channel), Buffer.from(text)]));
        if (stdout !== '') send(1, stdout);
        if (stderr !== '') send(2, stderr);
        const causes = [{ reason: 'ExitCode', message: String(exit) }];
        const failure = { status: 'Failure', reason: 'NonZeroExitCode', details: { causes } };
        send(3, JSON.stringify(exit === 0 ? { status: 'Success' } : failure));
      });
    });
  }

  static async start(objects: Objects): Promise<FakeApiServer> {
    const made = new FakeApiServer(objects);
    await new Promise<void>((resolve) => made.#server.listen(0, '127.0.0.1', resolve));
    return made;
  }

  /** Path of a kubeconfig with the namespace `team`. */
  get kubeconfig(): string {
    const { port } = this.#server.address() as AddressInfo;
    const file = this.#folder.file('kubeconfig');
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      'current-context': 'fake',
      clusters: [{ name: 'fake', cluster: { server: `http://127.0.0.1:${port}`, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'fake', user: { token: 'of-a-test' } }],
      contexts: [{ name: 'fake', context: { cluster: 'fake', user: 'fake', namespace: 'team' } }],
    };
    writeFileSync(file, JSON.stringify(config));
    return file;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    await this.#folder.remove();
  }

  #note(request: IncomingMessage): URL {
    this.requests.push(`${request.method} ${request.url}`);
    return new URL(request.url ?? '/', 'http://server');
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = this.#note(request);
    let body = '';
    for await (const chunk of request) body += chunk;
    const json = (status: number, value: unknown) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(value));
    };
    const text = this.texts[pathname];
    if (text !== undefined) return void response.end(text());
    const forbidden = pathname.split('/').find((part) => this.forbidden.has(part));
    if (forbidden !== undefined) return json(403, refusal(403, 'Forbidden', `${forbidden} is forbidden`));
    if (request.method === 'POST') {
      const created = this.admit(JSON.parse(body)) as { metadata: { name: string } };
      this.objects[`${pathname}/${created.metadata.name}`] = created as Objects[string];
      return json(201, created);
    }
    const known = this.objects[pathname];
    if (request.method === 'DELETE') delete this.objects[pathname];
    if (known !== undefined) return json(200, known);
    const name = pathname.split('/').at(-1) ?? '';
    if (
      /^[a-z]+s$/.test(name) &&
      !pathname.includes('/proxy/') &&
      !/\/(pods|datasets|deployments)\/[^/]+$/.test(pathname)
    ) {
      return json(200, {
        metadata: { resourceVersion: '1' },
        items: this.#listed(pathname, searchParams.get('labelSelector')),
      });
    }
    json(404, refusal(404, 'NotFound', `${name} not found`, name));
  }

  /** Objects of one collection; without a namespace, of all namespaces. */
  #listed(pathname: string, selector: string | null): object[] {
    const plural = pathname.split('/').at(-1);
    const wanted = (selector ?? '').split(',').filter((part) => part !== '');
    return Object.entries(this.objects).flatMap(([path, object]) => {
      const isHere =
        path.startsWith(`${pathname}/`) || (!pathname.includes('/namespaces/') && path.includes(`/${plural}/`));
      const { labels = {} } = object.metadata ?? {};
      const isWanted = wanted.every((one) => labels[one.split('=')[0] ?? ''] === one.split('=')[1]);
      return isHere && isWanted ? [object] : [];
    });
  }
}

function refusal(code: number, reason: string, message: string, name = ''): object {
  return { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message, details: { name } };
}

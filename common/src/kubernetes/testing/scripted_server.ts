import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { KubernetesApi, type KubernetesApiOptions } from '../kubernetes_api.ts';

export interface ScriptedRequest {
  method: string;
  /** Path and query. */
  url: URL;
  headers: IncomingMessage['headers'];
  body: string;
}

export type Answer = (request: ScriptedRequest, response: ServerResponse) => void | Promise<void>;

/** An HTTP server with scripted answers: in turn, the last one forever. */
export class ScriptedServer {
  readonly requests: ScriptedRequest[] = [];
  readonly #server: Server;
  readonly #answers: Answer[];

  private constructor(answers: Answer[]) {
    this.#answers = answers;
    this.#server = createServer((incoming, response) => void this.#answer(incoming, response));
  }

  static async start(...answers: Answer[]): Promise<ScriptedServer> {
    const made = new ScriptedServer(answers);
    await new Promise<void>((resolve) => made.#server.listen(0, '127.0.0.1', resolve));
    return made;
  }

  get url(): URL {
    return new URL(`http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`);
  }

  /** Number of 401 responses to clients. */
  refusals = 0;

  api(options?: KubernetesApiOptions): KubernetesApi {
    const connection = { server: this.url, headers: { authorization: 'Bearer of-a-test' }, tls: {} };
    const refused = () => {
      this.refusals += 1;
    };
    return new KubernetesApi({ connection: async () => connection, refused }, options);
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = '';
    for await (const chunk of incoming) body += chunk;
    const { method = '', headers } = incoming;
    const request = { method, url: new URL(incoming.url ?? '/', 'http://server'), headers, body };
    this.requests.push(request);
    const answer = this.#answers.length > 1 ? this.#answers.shift() : this.#answers[0];
    await answer?.(request, response);
  }
}

export function json(value: unknown, status = 200, headers: Record<string, string> = {}): Answer {
  return (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(value));
  };
}

/** The Status body with which the API server refuses a request. */
export function refusal(code: number, reason: string, message = reason, details: object = {}): object {
  return { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message, details };
}

/** A watch response that sends these texts and then ends as `end` says. */
export function streamed(texts: string[], end: 'open' | 'close' | 'cut'): Answer {
  return (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    for (const text of texts) response.write(text);
    if (end === 'close') response.end();
    // Gives bytes already written time to leave.
    if (end === 'cut') setTimeout(() => response.destroy(), 20);
  };
}

export function line(type: string, object: object): string {
  return `${JSON.stringify({ type, object })}\n`;
}

export function configMap(name: string, resourceVersion: number, more: object = {}): object {
  const metadata = { name, namespace: 'default', uid: `uid-${name}`, resourceVersion: String(resourceVersion) };
  return { apiVersion: 'v1', kind: 'ConfigMap', metadata, ...more };
}

export function listOf(items: object[], resourceVersion: number, token?: string): object {
  const metadata = { resourceVersion: String(resourceVersion), ...(token === undefined ? {} : { continue: token }) };
  return { kind: 'ConfigMapList', apiVersion: 'v1', metadata, items };
}

import { request } from 'node:https';
import { KubeConfig } from '@kubernetes/client-node';

/** One cause of a refusal by the API server. */
export interface Cause {
  /** Path of the field; empty when the refusal names none. */
  field: string;
  message: string;
}

export interface Answer {
  code: number;
  /** The object, or the Status of a refusal. */
  // biome-ignore lint/suspicious/noExplicitAny: objects of every kind
  body: any;
  causes: Cause[];
}

/** Sends objects to an API server and reports refusals field by field, which kubectl does not. */
export class Admission {
  readonly #config = new KubeConfig();

  readonly #user: string | undefined;

  /** `user`: impersonated user. */
  constructor(kubeconfig: string, user?: string) {
    this.#config.loadFromFile(kubeconfig);
    this.#user = user;
  }

  create(path: string, object: object, options: { dryRun?: boolean } = {}): Promise<Answer> {
    return this.ask('POST', withQuery(path, options.dryRun), object);
  }

  replace(path: string, object: object, options: { dryRun?: boolean } = {}): Promise<Answer> {
    return this.ask('PUT', withQuery(path, options.dryRun), object);
  }

  merge(path: string, patch: object): Promise<Answer> {
    return this.ask('PATCH', path, patch, 'application/merge-patch+json');
  }

  async ask(method: string, path: string, body?: object, type = 'application/json'): Promise<Answer> {
    const server = this.#config.getCurrentCluster()?.server ?? '';
    const options = { method, headers: { 'content-type': type } as Record<string, string>, timeout: 300_000 };
    if (this.#user !== undefined) options.headers['impersonate-user'] = this.#user;
    await this.#config.applyToHTTPSOptions(options);
    const text = await new Promise<{ code: number; body: string }>((resolve, reject) => {
      const asked = request(`${server}${path}`, options, (response) => {
        let received = '';
        response.setEncoding('utf8').on('data', (part) => {
          received += part;
        });
        response.on('end', () => resolve({ code: response.statusCode ?? 0, body: received }));
      });
      asked.once('timeout', () => asked.destroy(new Error(`${method} ${path}: no answer in 20 s`)));
      asked.once('error', reject);
      asked.end(body === undefined ? undefined : JSON.stringify(body));
    });
    const parsed = text.body.startsWith('{') ? JSON.parse(text.body) : { message: text.body };
    return { code: text.code, body: parsed, causes: text.code < 400 ? [] : causesOf(parsed) };
  }
}

const withQuery = (path: string, dryRun = false): string =>
  `${path}?fieldValidation=Strict&fieldManager=test${dryRun ? '&dryRun=All' : ''}`;

function causesOf(status: { message?: string; details?: { causes?: Partial<Cause>[] } }): Cause[] {
  const causes = status.details?.causes ?? [];
  if (causes.length === 0) return [{ field: '', message: status.message ?? '' }];
  return causes.map((one) => ({ field: one.field ?? '', message: one.message ?? '' }));
}

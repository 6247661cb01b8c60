import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Authority } from '@hearth/common/testing';
import { type ScriptedServer, startServer } from '@hearth/common/testing/origins';

/** A mutating webhook as other products have them: each update of a pod brings a label and an annotation of its own. */
export class LabellingWebhook implements AsyncDisposable {
  readonly #server: ScriptedServer;
  readonly #authorities: string;
  readonly #labels: Record<string, string>;
  /** Updates that it was asked about, by user. */
  readonly asked = new Map<string, number>();

  private constructor(server: ScriptedServer, authorities: string, labels: Record<string, string>) {
    this.#server = server;
    this.#authorities = authorities;
    this.#labels = labels;
    server.handler = async (request, response) => {
      const text = Buffer.concat(await request.toArray()).toString();
      response.setHeader('content-type', 'application/json').end(this.#answer(text));
    };
  }

  /** `folder`: for its certificate. `labels`: those that it sets. */
  static async start(folder: string, labels: Record<string, string>): Promise<LabellingWebhook> {
    const pair = Authority.create({ folder: join(folder, 'labelling-webhook') }).issue({ names: ['localhost'] });
    return new LabellingWebhook(await startServer(pair, 'localhost'), pair.authorities, labels);
  }

  /** By which the API server asks it. */
  get configuration(): object {
    const caBundle = readFileSync(this.#authorities).toString('base64');
    return {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'MutatingWebhookConfiguration',
      metadata: { name: 'labelling' },
      webhooks: [
        {
          name: 'labelling.example.com',
          admissionReviewVersions: ['v1'],
          sideEffects: 'None',
          failurePolicy: 'Fail',
          clientConfig: { url: `${this.#server.url}/`, caBundle },
          rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['pods'] }],
        },
      ],
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop();
  }

  #answer(text: string): string {
    const { request } = JSON.parse(text);
    const { uid, userInfo, object } = request;
    this.asked.set(userInfo.username, (this.asked.get(userInfo.username) ?? 0) + 1);
    const { labels, annotations } = object.metadata;
    const patch = [
      { op: 'add', path: '/metadata/labels', value: { ...labels, ...this.#labels } },
      { op: 'add', path: '/metadata/annotations', value: { ...annotations, 'example.com/by': userInfo.username } },
    ];
    return JSON.stringify({
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      response: {
        uid,
        allowed: true,
        patchType: 'JSONPatch',
        patch: Buffer.from(JSON.stringify(patch)).toString('base64'),
      },
    });
  }
}

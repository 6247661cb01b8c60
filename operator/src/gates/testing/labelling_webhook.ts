import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Authority, type KeyPair } from '@hearth/common/testing';

/** A mutating webhook as other products have them: each update of a pod brings a label and an annotation of its own. */
export class LabellingWebhook implements AsyncDisposable {
  readonly #server: Server;
  readonly #authorities: string;
  readonly #labels: Record<string, string>;
  /** Updates that it was asked about, by user. */
  readonly asked = new Map<string, number>();

  private constructor(pair: KeyPair, labels: Record<string, string>) {
    this.#authorities = pair.authorities;
    this.#labels = labels;
    this.#server = createServer(
      { key: readFileSync(pair.key), cert: readFileSync(pair.certificate) },
      (request, response) => {
        let text = '';
        request.setEncoding('utf8').on('data', (part) => {
          text += part;
        });
        request.on('end', () => response.setHeader('content-type', 'application/json').end(this.#answer(text)));
      },
    );
  }

  /** `folder`: for its certificate. `labels`: those that it sets. */
  static async start(folder: string, labels: Record<string, string>): Promise<LabellingWebhook> {
    const authority = Authority.create({ folder: join(folder, 'labelling-webhook') });
    const webhook = new LabellingWebhook(authority.issue({ names: ['localhost'] }), labels);
    await new Promise<void>((resolve) => webhook.#server.listen(0, 'localhost', resolve));
    return webhook;
  }

  /** By which the API server asks it. */
  get configuration(): object {
    const { port } = this.#server.address() as AddressInfo;
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
          clientConfig: { url: `https://localhost:${port}/`, caBundle },
          rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['UPDATE'], resources: ['pods'] }],
        },
      ],
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
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

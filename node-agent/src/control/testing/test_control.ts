import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type ClientReadableStream, credentials, type handleUnaryCall, type ServiceError } from '@grpc/grpc-js';
import { errorCodeKey, HearthError } from '@hearth/common';
import {
  type AddDatasetRequest,
  ControlClient,
  type ControlServer,
  type Source,
} from '@hearth/common/generated/hearth/v1/control.ts';
import { TestCluster } from '../../testing/cluster.ts';
import { directorySource, fileRow } from '../../testing/fake_origin.ts';
import { ControlApi } from '../server.ts';

type Unary<K extends string> =
  ControlServer[K] extends handleUnaryCall<infer Q, infer R> ? { request: Q; response: R } : never;

/** A cluster of two agents, `a` and `b`, with a dataset of three files, and a client of the control API of `a`. */
export class TestControl {
  readonly cluster: TestCluster;
  readonly socket: string;
  readonly api: ControlApi;
  readonly client: ControlClient;

  private constructor(cluster: TestCluster) {
    this.cluster = cluster;
    this.socket = join(cluster.folder, 'run', 'agent.sock');
    const prepare = (source: typeof directorySource) => {
      if (source.allowPrivate) throw new HearthError('PermissionDenied', 'private addresses are refused; ask for less');
      return source;
    };
    const secret = Buffer.from('the secret of the cluster');
    this.api = new ControlApi(cluster.agent('a'), { socket: this.socket, cluster: 'test', secret, prepare });
    this.client = new ControlClient(`unix://${this.socket}`, credentials.createInsecure(), {
      'grpc.default_authority': 'localhost',
    });
  }

  static async start(): Promise<TestControl> {
    const rows = [fileRow('a.bin', 3_000_000n), fileRow('b/c.bin', 10n), fileRow('b/d.txt', 0n)];
    const control = new TestControl(await TestCluster.start(['a', 'b'], rows));
    await control.api.listen();
    return control;
  }

  async close(): Promise<void> {
    this.client.close();
    await this.api.close(2_000);
    await this.cluster.close();
  }

  call = <K extends string>(name: K, request: Unary<K>['request']): Promise<Unary<K>['response']> =>
    new Promise((resolve, reject) => {
      const done = (error: ServiceError | null, response: Unary<K>['response']) =>
        error ? reject(error) : resolve(response);
      const methods = this.client as unknown as Record<string, (message: unknown, callback: typeof done) => void>;
      methods[name]?.call(this.client, request, done);
    });

  /** Adds the dataset; returns all messages. */
  add = (name = 'd') => collect(this.client.addDataset(addRequest(name, directorySource)));
}

export async function collect<R>(stream: ClientReadableStream<R>): Promise<R[]> {
  return await stream.toArray();
}

export function addRequest(name: string, source: Source | undefined): AddDatasetRequest {
  return { name, source, include: [], exclude: [], credentials: undefined };
}

/** For assert.rejects: matches a failed call with this error code. */
export const failsWith = (code: string, message: RegExp) => (error: ServiceError) => {
  assert.equal(error.metadata.get(errorCodeKey)[0], code);
  assert.match(error.details, message);
  return true;
};

export const warmJob = {
  dataset: 'd',
  paths: [],
  nodes: [],
  manifest: '',
  replicas: 0,
  pin: false,
  pinOwner: '',
  priority: 0,
  rateLimit: 0n,
  peerRateLimit: 0n,
  deadlineSeconds: 0n,
  verify: '',
  name: 'j',
  ensure: false,
  readyWhen: '',
};

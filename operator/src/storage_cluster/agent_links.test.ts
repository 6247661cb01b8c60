import assert from 'node:assert/strict';
import { silentLogger } from '@hearth/common';
import type { ChangeListener, Secret } from '@hearth/common/kubernetes';
import type { StorageCluster } from '@hearth/common/resources';
import { until } from '@hearth/common/testing';
import type { AgentEndpoint, ClientIdentity } from '../agents/index.ts';
import type { Source } from '../kubernetes/index.ts';
import { connectAgents } from './agent_links.ts';
import type { PodState } from './pod_state.ts';
import { sampleCluster } from './testing/samples.ts';

class Memory<P> implements Source<P> {
  readonly #objects = new Map<string, P>();
  readonly #listeners = new Set<ChangeListener<P>>();

  get = (key: string) => this.#objects.get(key);
  all = () => [...this.#objects.values()];
  keys = () => [...this.#objects.keys()];
  synced = async () => {};
  onChange = (listener: ChangeListener<P>) => {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  };

  set(key: string, after: P | undefined): void {
    const before = this.#objects.get(key);
    if (after === undefined) this.#objects.delete(key);
    else this.#objects.set(key, after);
    for (const listener of this.#listeners) listener(key, before, after);
  }
}

const agent = (node: string, fields: Partial<PodState> = {}): PodState =>
  ({
    cluster: 'models',
    component: 'agent',
    node,
    hostAddress: `10.0.0.${node}`,
    running: true,
    ...fields,
  }) as PodState;

function secretOf(certificate: string): Secret {
  const metadata = { name: 'hearth-models-operator', labels: { 'hearth.storage/cluster': 'models' } };
  return { metadata, data: { 'tls.crt': Buffer.from(certificate).toString('base64') } };
}

describe('connections to agents', () => {
  let clusters: Memory<StorageCluster>;
  let secrets: Memory<Secret>;
  let pods: Memory<PodState>;
  let unlabelled: Secret | undefined;
  const known = new Map<string, [certificate: string, addresses: string[]]>();
  let ending: AbortController;
  let ended: Promise<void>;

  beforeEach(() => {
    clusters = new Memory();
    secrets = new Memory();
    pods = new Memory();
    unlabelled = undefined;
    known.clear();
    ending = new AbortController();
    const agents = {
      configure: (name: string, { certificate }: ClientIdentity, endpoints: readonly AgentEndpoint[]) =>
        void known.set(name, [certificate, endpoints.map(({ address }) => address)]),
      forget: async (name: string) => void known.delete(name),
    };
    const api = { get: async () => unlabelled as never };
    const options = { api, namespace: 'ns', agents, clusters, secrets, pods, logger: silentLogger };
    clusters.set('models', sampleCluster());
    pods.set('ns/a', agent('1'));
    pods.set('ns/b', agent('2', { running: false }));
    ended = connectAgents(options, ending.signal);
  });
  afterEach(async () => {
    ending.abort();
    await ended;
  });
  const connected = (certificate: string, ...addresses: string[]) =>
    until(`connected to ${addresses}`, () => {
      return JSON.stringify(known.get('models')) === JSON.stringify([certificate, addresses]);
    });

  it('begin when there are certificates, follow pods and certificates, and end with the StorageCluster', async () => {
    secrets.set('ns/hearth-models-operator', secretOf('first'));
    await connected('first', '10.0.0.1:7528');
    pods.set('ns/b', agent('2'));
    await connected('first', '10.0.0.1:7528', '10.0.0.2:7528');
    pods.set('ns/a', agent('1', { deleting: true }));
    await connected('first', '10.0.0.2:7528');
    secrets.set('ns/hearth-models-operator', secretOf('renewed'));
    await connected('renewed', '10.0.0.2:7528');
    clusters.set('models', undefined);
    await until('none', () => known.size === 0);
  });

  it('use certificates of a Secret without labels', async () => {
    unlabelled = secretOf('restored');
    clusters.set('models', undefined);
    clusters.set('models', sampleCluster());
    await connected('restored', '10.0.0.1:7528');
    assert.deepEqual([...known.keys()], ['models']);
  });
});

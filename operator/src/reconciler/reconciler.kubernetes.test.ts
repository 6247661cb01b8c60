import assert from 'node:assert/strict';
import { HearthError, silentLogger } from '@hearth/common';
import {
  type ConfigMap,
  EventRecorder,
  type KubernetesApi,
  type KubernetesObject,
  kinds,
  LeaderElection,
  ownerReference,
  ownKey,
  Reflector,
  resourceType,
  runController,
  WorkQueue,
  watch,
} from '@hearth/common/kubernetes';
import { CutProxy } from '@hearth/common/kubernetes/testing';
import type { Condition } from '@hearth/common/resources';
import { elapse, until } from '@hearth/common/testing';
import { apiOf, startApiServer, type TestApiServer } from '@hearth/common/testing/kubernetes';
import { type CleanUpResult, type DesiredStatus, type ObjectReconciler, reconcileObject } from './index.ts';

interface Widget extends KubernetesObject {
  spec: { text: string };
  status?: { observedGeneration?: number; conditions?: Condition[]; made?: string };
}
const widgets = resourceType<Widget>('controller.example', 'v1', 'widgets', 'Widget', 'Namespaced');
const namespace = 'default';
const lease = { name: 'widget-operator', namespace };

/** A ConfigMap with the widget's text for each widget. */
class WidgetReconciler implements ObjectReconciler<Widget, ConfigMap | undefined, ConfigMap> {
  readonly type = widgets;
  readonly #api: KubernetesApi;
  readonly #made: Reflector<ConfigMap>;

  constructor(api: KubernetesApi, made: Reflector<ConfigMap>) {
    this.#api = api;
    this.#made = made;
  }

  async observe({ metadata }: Widget): Promise<ConfigMap | undefined> {
    return this.#made.get(`${namespace}/made-${metadata?.name}`);
  }

  plan(widget: Widget, made: ConfigMap | undefined): ConfigMap[] {
    if (made?.data?.text === widget.spec.text) return [];
    const metadata = { name: `made-${widget.metadata?.name}`, namespace, labels: { made: 'yes' } };
    return [
      {
        metadata: { ...metadata, ownerReferences: [ownerReference(widgets, widget)] },
        data: { text: widget.spec.text },
      },
    ];
  }

  async apply(action: ConfigMap, _widget: Widget, signal: AbortSignal): Promise<void> {
    if (action.data?.text === 'refused') throw new HearthError('PermissionDenied', 'The text may not be made');
    await this.#api.apply(kinds.ConfigMap, action, { signal });
  }

  status({ spec }: Widget): DesiredStatus<Widget> {
    return { made: spec.text, conditions: [{ type: 'Ready', status: 'True', reason: 'Made', message: 'It is made' }] };
  }

  async cleanUp({ metadata }: Widget, signal: AbortSignal): Promise<CleanUpResult> {
    const gone = !(await this.#api.delete(kinds.ConfigMap, `made-${metadata?.name}`, namespace, { signal }));
    return gone ? 'done' : { waitingFor: 'The ConfigMap is being deleted', requeueAfterMs: 50 };
  }
}

/** A replica of an operator: reflectors all the time, a controller while it leads. */
class Operator {
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;
  readonly election: LeaderElection;
  readonly events: EventRecorder;

  constructor(api: KubernetesApi, identity: string) {
    const logger = silentLogger;
    const { signal } = this.#stop;
    const objects = new Reflector<Widget>({ api, type: widgets, logger });
    const made = new Reflector<ConfigMap>({ api, type: kinds.ConfigMap, namespace, labelSelector: 'made=yes', logger });
    this.events = new EventRecorder({ api, component: 'widget-operator', instance: identity, logger });
    for (const reflector of [objects, made]) reflector.start(signal);
    const times = { leaseSeconds: 9, renewSeconds: 6, retrySeconds: 0.4 };
    this.election = new LeaderElection({ api, ...lease, identity, ...times, logger });
    this.#ended = this.election.run(async (term) => {
      const reconciler = new WidgetReconciler(api, made);
      await runController({
        name: 'widgets',
        queue: new WorkQueue(),
        workers: 4,
        watches: [watch(objects, ownKey), watch(made, (key) => [key.replace('/made-', '/')])],
        first: () => objects.keys(),
        reconcile: reconcileObject({ reconciler, api, objects, events: this.events, logger }),
        logger,
        signal: term,
      });
    }, signal);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#ended.catch(() => undefined);
    await this.events.close();
  }
}

describe('Controller against a real API server', () => {
  let server: TestApiServer;
  let api: KubernetesApi;
  const operators: Operator[] = [];
  const proxies: CutProxy[] = [];
  const apis: KubernetesApi[] = [];
  before(async function () {
    server = await startApiServer(this);
    api = apiOf(server.kubeconfig);
    const open = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } as const;
    const openAPIV3Schema = { type: 'object', properties: { spec: open, status: open } } as const;
    await api.create(kinds.CustomResourceDefinition, {
      metadata: { name: 'widgets.controller.example' },
      spec: {
        group: widgets.group,
        names: { kind: 'Widget', plural: 'widgets' },
        scope: 'Namespaced',
        versions: [
          { name: 'v1', served: true, storage: true, subresources: { status: {} }, schema: { openAPIV3Schema } },
        ],
      },
    });
    await until('the kind is served', () =>
      api.list(widgets).then(
        () => true,
        () => false,
      ),
    );
  });
  afterEach(async () => {
    await Promise.all(operators.splice(0).map((operator) => operator.stop()));
    for (const one of apis.splice(0)) one.close();
    await Promise.all(proxies.splice(0).map((proxy) => proxy.close()));
  });
  after(async () => {
    api?.close();
    await server?.stop();
  });

  const operator = async (identity: string): Promise<{ operator: Operator; network: CutProxy }> => {
    const network = await CutProxy.start(server.url);
    proxies.push(network);
    const own = apiOf(network.kubeconfig(server.kubeconfig, identity), { deadlineMs: 3_000 });
    apis.push(own);
    const made = new Operator(own, identity);
    operators.push(made);
    return { operator: made, network };
  };
  const put = (name: string, text: string): Promise<Widget> =>
    api.apply(widgets, { metadata: { name, namespace }, spec: { text } }, { fieldManager: 'user' });
  const settled = (count: number): Promise<unknown> =>
    until(`${count} widgets are as they should be`, async () => {
      const { items } = await api.list(widgets);
      const made = await api.list(kinds.ConfigMap, { namespace, labelSelector: 'made=yes' });
      const texts = new Map(made.items.map(({ metadata, data }) => [metadata?.name, data?.text]));
      const right = ({ metadata, spec, status }: Widget) =>
        texts.get(`made-${metadata?.name}`) === spec.text &&
        status?.made === spec.text &&
        status.conditions?.[0]?.status === 'True';
      return items.length === count && made.items.length === count && items.every(right);
    });
  const versions = async (): Promise<(string | undefined)[]> => {
    const lists = [await api.list(widgets), await api.list(kinds.ConfigMap, { namespace, labelSelector: 'made=yes' })];
    return lists.flatMap(({ items }) => items.map(({ metadata }) => metadata?.resourceVersion));
  };

  it('makes, repairs and cleans up', async () => {
    await operator('one');
    await put('a', '1');
    await put('b', '1');
    await settled(2);
    await put('a', '2');
    await api.patch(kinds.ConfigMap, 'made-b', namespace, { data: { text: 'drift' } }, { kind: 'merge' });
    await settled(2);
    await api.delete(kinds.ConfigMap, 'made-b', namespace);
    await settled(2);
    await api.delete(widgets, 'b', namespace);
    await settled(1);
  });

  it('shows a user what is wrong, once, and that it is right again', async () => {
    await operator('one');
    await put('told', 'refused');
    const said = async () =>
      (await api.list(kinds.CoreEvent, { namespace })).items.filter(
        ({ involvedObject }) => involvedObject.name === 'told',
      );
    await until(
      'several failures',
      async () => ((await said()).find(({ type }) => type === 'Warning')?.count ?? 0) >= 4,
    );
    const condition = (await api.get(widgets, 'told', namespace))?.status?.conditions?.[0];
    assert.deepEqual(
      [condition?.status, condition?.reason, condition?.message],
      ['False', 'PermissionDenied', 'The text may not be made'],
    );
    assert.equal(condition?.observedGeneration, 1);
    await put('told', 'fine');
    await settled(2);
    // Events are written after the status.
    const events = await until('both are reported', async () => {
      const reported = (await said()).map(({ type, reason }) => `${type} ${reason}`).sort();
      return reported.includes('Normal Made') && reported;
    });
    assert.deepEqual(events, ['Normal Made', 'Warning PermissionDenied']);
    const shown = await server.kubectl(['describe', 'widget', 'told', '-n', namespace]);
    assert.match(
      shown.stdout,
      /Warning\s+PermissionDenied\s+\S+ \(x\d+ over \S+\)\s+widget-operator\s+The text may not be made/,
    );
    await api.delete(widgets, 'told', namespace);
    await settled(1);
  });

  it('does all once in the end, whatever happens to networks, leaders and the API server', async () => {
    const one = await operator('one');
    await until('one leads', () => one.operator.election.isLeader);
    const two = await operator('two');
    for (let index = 0; index < 40; ++index) {
      await put(`w-${index % 20}`, String(index));
      if (index % 6 === 2) one.network.cut();
      if (index === 15) one.network.freeze();
      if (index === 30) await server.restart();
    }
    await until('two leads', () => two.operator.election.isLeader && !one.operator.election.isLeader);
    one.network.thaw();
    await settled(21);
    for (let index = 0; index < 10; ++index) await api.delete(widgets, `w-${index}`, namespace);
    await settled(11);
  });

  it('begins again without writing a single object', async () => {
    const first = await operator('first');
    await settled(11);
    await first.operator.stop();
    const before = await versions();
    const second = await operator('second');
    await until('it leads', () => second.operator.election.isLeader);
    await elapse(2_000, 'it would write');
    assert.deepEqual(await versions(), before);
  });
});

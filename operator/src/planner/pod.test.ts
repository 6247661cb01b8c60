import assert from 'node:assert/strict';
import type { Node, Pod } from '@hearth/common/kubernetes';
import { plannedNode, podTemplate, runningPod } from './pod.ts';
import { gib } from './testing/inputs.ts';

type Spec = NonNullable<Pod['spec']>;
type Container = Spec['containers'][number];

function container(requests: Record<string, string>, options: Partial<Container> = {}): Container {
  return { name: 'main', image: 'none', resources: { requests }, ...options };
}

function pod(spec: Partial<Spec> = {}, rest: Partial<Pod> = {}): Pod {
  return {
    metadata: { name: 'p', namespace: 'team', labels: { app: 'a' } },
    spec: { containers: [container({})], ...spec },
    ...rest,
  };
}

const template = (spec: Partial<Spec>) => podTemplate(pod(spec), { foreignVolumes: false });
const requests = (spec: Partial<Spec>) => template(spec).requests;
const sidecar = { restartPolicy: 'Always' };

describe('a node and a pod as the planner takes them', () => {
  it('a node by its allocatable, else its capacity', () => {
    const node: Node = {
      metadata: { name: 'n', labels: { zone: 'a' } },
      spec: { unschedulable: true, taints: [{ key: 'k', effect: 'NoSchedule' }] },
      status: {
        capacity: { cpu: '8' },
        allocatable: { cpu: '7500m', memory: '1Gi', pods: '110', 'nvidia.com/gpu': '8' },
      },
    };
    assert.deepEqual(plannedNode(node), {
      name: 'n',
      labels: { zone: 'a' },
      taints: [{ key: 'k', value: undefined, effect: 'NoSchedule' }],
      unschedulable: true,
      allocatable: { cpu: 7500, memory: gib, pods: 110, 'nvidia.com/gpu': 8 },
    });
    assert.deepEqual(plannedNode({ ...node, status: { capacity: { cpu: '8' } } }).allocatable, { cpu: 8000 });
    const bare = { name: 'n', labels: {}, taints: [], unschedulable: false, allocatable: {} };
    assert.deepEqual(plannedNode({ metadata: { name: 'n' } }), bare);
  });

  describe('requests', () => {
    it('are those of all containers together', () => {
      const containers = [container({ cpu: '1', 'nvidia.com/gpu': '1' }), container({ cpu: '500m', memory: '1Gi' })];
      assert.deepEqual(requests({ containers }), { cpu: 1500, memory: gib, 'nvidia.com/gpu': 1 });
    });

    it('are those of an init container where it needs more', () => {
      const initContainers = [container({ cpu: '2', memory: '1Gi' }), container({ cpu: '3' })];
      const containers = [container({ cpu: '1', memory: '2Gi' })];
      assert.deepEqual(requests({ containers, initContainers }), { cpu: 3000, memory: 2 * gib });
    });

    it('count sidecars with the containers, and with the init containers after them', () => {
      const containers = [container({ cpu: '1' })];
      const initContainers = [container({ cpu: '4' }), container({ cpu: '2' }, sidecar), container({ cpu: '3' })];
      assert.deepEqual(requests({ containers, initContainers }), { cpu: 5000 });
      assert.deepEqual(requests({ containers, initContainers: initContainers.slice(0, 2) }), { cpu: 4000 });
      assert.deepEqual(requests({ containers, initContainers: initContainers.slice(1, 2) }), { cpu: 3000 });
    });

    it('are those of the pod itself where it has some, and its overhead', () => {
      const containers = [container({ cpu: '1', memory: '1Gi', 'nvidia.com/gpu': '1' })];
      const resources = { requests: { cpu: '3', 'nvidia.com/gpu': '9' } };
      const found = requests({ containers, resources, overhead: { cpu: '250m', memory: '1Gi' } });
      assert.deepEqual(found, { cpu: 3250, memory: 2 * gib, 'nvidia.com/gpu': 1 });
    });
  });

  it('takes ports of the host of containers and sidecars', () => {
    const port = (hostPort: number, rest = {}) => ({ ports: [{ containerPort: 1, hostPort, ...rest }] });
    const containers = [container({}, port(80)), container({}, { ports: [{ containerPort: 9 }] })];
    const initContainers = [
      container({}, port(81)),
      container({}, { ...sidecar, ...port(82, { hostIP: '10.0.0.1', protocol: 'UDP' }) }),
    ];
    assert.deepEqual(template({ containers, initContainers }).hostPorts, [
      { ip: '10.0.0.1', protocol: 'UDP', port: 82 },
      { ip: '0.0.0.0', protocol: 'TCP', port: 80 },
    ]);
  });

  it('a template has what the scheduler asks', () => {
    const expression = { key: 'disk', operator: 'In', values: ['ssd'] };
    const field = { key: 'metadata.name', operator: 'NotIn', values: ['n'] };
    const found = template({
      nodeSelector: { os: 'linux' },
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: [expression] }] },
          preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 7, preference: { matchFields: [field] } }],
        },
      },
      tolerations: [{ operator: 'Exists' }],
      topologySpreadConstraints: [
        {
          topologyKey: 'zone',
          maxSkew: 2,
          whenUnsatisfiable: 'DoNotSchedule',
          labelSelector: { matchLabels: { app: 'a' } },
        },
        {
          ...{ topologyKey: 'host', maxSkew: 1, whenUnsatisfiable: 'ScheduleAnyway', minDomains: 3 },
          ...{ matchLabelKeys: ['hash'], nodeAffinityPolicy: 'Ignore', nodeTaintsPolicy: 'Honor' },
        },
      ],
    });
    assert.equal(found.namespace, 'team');
    assert.deepEqual(found.labels, { app: 'a' });
    assert.deepEqual(found.nodeSelector, { os: 'linux' });
    assert.deepEqual(found.requiredTerms, [{ matchExpressions: [expression], matchFields: [] }]);
    assert.deepEqual(found.preferredTerms, [{ weight: 7, term: { matchExpressions: [], matchFields: [field] } }]);
    assert.deepEqual(found.tolerations, [{ key: undefined, operator: 'Exists', value: undefined, effect: undefined }]);
    assert.deepEqual(found.spread, [
      {
        ...{ topologyKey: 'zone', maxSkew: 2, minDomains: undefined, hard: true },
        ...{ selector: { matchLabels: { app: 'a' }, matchExpressions: [] }, matchLabelKeys: [] },
        ...{ honorAffinity: true, honorTaints: false },
      },
      {
        ...{ topologyKey: 'host', maxSkew: 1, minDomains: 3, hard: false, selector: undefined },
        ...{ matchLabelKeys: ['hash'], honorAffinity: false, honorTaints: true },
      },
    ]);
    assert.deepEqual(found.unmodelled, []);
    assert.equal(template({}).requiredTerms, undefined);
  });

  describe('what is not modelled', () => {
    const selector = { topologyKey: 'zone' };
    const required = { requiredDuringSchedulingIgnoredDuringExecution: [selector] };
    const wish = { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, podAffinityTerm: selector }] };
    const cases: [Partial<Spec>, string[]][] = [
      [{ schedulerName: 'other' }, ['scheduler other']],
      [{ schedulerName: 'default-scheduler' }, []],
      [{ schedulingGates: [{ name: 'hearth.storage/preload' }] }, []],
      [{ schedulingGates: [{ name: 'kueue.x-k8s.io/admission' }] }, ['gates of others']],
      [{ resourceClaims: [{ name: 'gpu' }] }, ['resource claims']],
      [{ affinity: { podAffinity: required } }, ['affinity to other pods']],
      [{ affinity: { podAntiAffinity: required } }, ['anti-affinity to other pods']],
      [{ affinity: { podAffinity: wish, podAntiAffinity: wish } }, []],
      [{ tolerations: [{ key: 'x', operator: 'Gt', value: '1' }] }, ['tolerations that compare']],
      [{ hostNetwork: true, hostUsers: false }, ["the host's network in a user namespace"]],
    ];
    for (const [spec, expected] of cases) {
      it(JSON.stringify(spec), () => assert.deepEqual(template(spec).unmodelled, expected));
    }

    it('volumes of others, of which only the caller knows', () => {
      assert.deepEqual(podTemplate(pod(), { foreignVolumes: true }).unmodelled, ['volumes of other drivers']);
    });
  });

  describe('a pod that runs', () => {
    const on = (rest: Partial<Pod> = {}, spec: Partial<Spec> = {}) => runningPod(pod({ nodeName: 'n', ...spec }, rest));

    it('takes room until it has ended', () => {
      assert.equal(runningPod(pod()), undefined);
      for (const phase of ['Succeeded', 'Failed']) assert.equal(on({ status: { phase } }), undefined);
      for (const phase of ['Pending', 'Running', 'Unknown']) assert.equal(on({ status: { phase } })?.node, 'n');
      assert.deepEqual(on(), {
        namespace: 'team',
        labels: { app: 'a' },
        node: 'n',
        requests: {},
        hostPorts: [],
        deleting: false,
      });
    });

    it('may be on its way out', () => {
      assert.equal(on({ metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } })?.deleting, true);
    });

    it('lasts when a DaemonSet or the kubelet runs it', () => {
      const owner = { apiVersion: 'apps/v1', kind: 'DaemonSet', name: 'd', uid: 'u', controller: true };
      assert.equal(on({ metadata: { ownerReferences: [owner] } })?.lasting, true);
      assert.equal(on({ metadata: { ownerReferences: [{ ...owner, kind: 'ReplicaSet' }] } })?.lasting, undefined);
      assert.equal(on({ metadata: { annotations: { 'kubernetes.io/config.mirror': 'x' } } })?.lasting, true);
    });

    it('asks for what it still has or was promised while it is resized', () => {
      const states = (condition?: string) => ({
        phase: 'Running',
        containerStatuses: [
          {
            ...{ name: 'main', image: '', imageID: '', ready: true, restartCount: 0 },
            resources: { requests: { cpu: '3' } },
            allocatedResources: { cpu: '2', memory: '1Gi' },
          },
        ],
        ...(condition ? { conditions: [{ type: 'PodResizePending', status: 'True', reason: condition }] } : {}),
      });
      const containers = [container({ cpu: '1', memory: '2Gi' })];
      assert.deepEqual(on({ status: states() }, { containers })?.requests, { cpu: 3000, memory: 2 * gib });
      assert.deepEqual(on({ status: states('Infeasible') }, { containers })?.requests, { cpu: 3000, memory: gib });
      assert.deepEqual(on({ status: states('Deferred') }, { containers })?.requests, { cpu: 3000, memory: 2 * gib });
    });

    it('repels by required anti-affinity, in its own namespace unless it names others', () => {
      const labelSelector = { matchLabels: { app: 'b' } };
      const selector = { matchLabels: { app: 'b' }, matchExpressions: [] };
      const terms = [
        { topologyKey: 'zone', labelSelector },
        { topologyKey: 'rack', labelSelector, namespaces: ['x', 'y'] },
        { topologyKey: 'host', labelSelector, namespaceSelector: { matchLabels: { env: 'prod' } } },
      ];
      const affinity = { podAntiAffinity: { requiredDuringSchedulingIgnoredDuringExecution: terms } };
      assert.deepEqual(on({}, { affinity })?.repels, [
        { topologyKey: 'zone', namespaces: ['team'], selector },
        { topologyKey: 'rack', namespaces: ['x', 'y'], selector },
        { topologyKey: 'host', selector },
      ]);
    });
  });
});

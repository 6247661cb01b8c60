import assert from 'node:assert/strict';
import type { ConfigMap, DaemonSet, KubernetesObject, Service, StatefulSet } from '@hearth/common/kubernetes';
import { type NodeGroup, specHashAnnotation } from '@hearth/common/resources';
import { daemonTerms } from '../../kubernetes/index.ts';
import { environment, sampleCluster } from '../testing/samples.ts';
import { type DesiredInput, desired } from './desired.ts';

const store = 'etcd://10.96.0.7:2379/models?serverName=etcd.models.hearth';

function build(input: Partial<DesiredInput> = {}) {
  const objects = desired({
    cluster: sampleCluster(),
    environment,
    store,
    members: [],
    startHash: 'h',
    ...input,
  });
  const find = <T extends KubernetesObject>(kind: string, name: string) =>
    objects.find(({ object }) => object.kind === kind && object.metadata?.name === name)?.object as T | undefined;
  return {
    objects: objects.map(({ object }) => object),
    agent: find<DaemonSet>('DaemonSet', 'hearth-models-all-agent'),
    holder: find<DaemonSet>('DaemonSet', 'hearth-models-all-holder'),
    configuration: objects.find(({ object }) => object.kind === 'ConfigMap')?.object as ConfigMap | undefined,
    etcd: find<StatefulSet>('StatefulSet', 'hearth-models-etcd'),
    service: find<Service>('Service', 'hearth-models-etcd'),
  };
}

const podOf = (set: DaemonSet | StatefulSet | undefined) => {
  const pod = set?.spec?.template.spec;
  const [container] = pod?.containers ?? [];
  assert.ok(pod && container);
  return { pod, container, mounts: container.volumeMounts ?? [], template: set?.spec?.template.metadata };
};
const mountAt = (mounts: { mountPath: string }[], path: string) => mounts.find(({ mountPath }) => mountPath === path);

const startup = [
  'hearth.storage/agent-not-ready',
  'startup-taint.cluster-autoscaler.kubernetes.io/hearth-agent-not-ready',
].map((key) => ({ key, operator: 'Exists' }));

describe('objects of a StorageCluster', () => {
  it('are the same for the same spec, named once, owned by it and chosen by their labels', () => {
    const { objects } = build();
    assert.deepEqual(objects, build().objects);
    assert.equal(new Set(objects.map(({ kind, metadata }) => `${kind} ${metadata?.name}`)).size, objects.length);
    for (const { metadata, kind } of objects) {
      assert.equal(metadata?.namespace, 'hearth-system');
      assert.equal(metadata?.labels?.['app.kubernetes.io/managed-by'], 'hearth-operator');
      assert.equal(metadata?.labels?.['hearth.storage/cluster'], 'models');
      assert.equal(metadata?.ownerReferences?.[0]?.uid, 'uid-1', kind);
      assert.match(metadata?.annotations?.[specHashAnnotation] ?? '', /^[0-9a-f]{32}$/);
    }
  });

  it('have no token of a service account in any pod', () => {
    const { agent, holder, etcd } = build();
    for (const set of [agent, holder, etcd]) {
      assert.equal(podOf(set).pod.automountServiceAccountToken, false);
    }
  });

  it('run the agent on the network of the node, with mounts that others see and probes on its health port', () => {
    const { pod, container, mounts } = podOf(build().agent);
    assert.equal(pod.hostNetwork, true);
    assert.deepEqual(pod.tolerations, [{ operator: 'Exists' }]);
    assert.equal(container.securityContext?.privileged, true);
    assert.equal(container.securityContext?.readOnlyRootFilesystem, true);
    for (const path of ['/var/lib/hearth/models', '/var/cache/hearth']) {
      const mount = mountAt(mounts, path);
      assert.equal(mount && 'mountPropagation' in mount && mount.mountPropagation, 'Bidirectional', path);
    }
    assert.deepEqual(mountAt(mounts, '/run/hearth/models'), { name: 'run', mountPath: '/run/hearth/models' });
    assert.deepEqual(
      container.ports?.map((port) => [port.name, port.containerPort, port.hostPort]),
      [
        ['wire', 7527, 7527],
        ['control', 7528, 7528],
        ['health', 7529, 7529],
      ],
    );
    for (const probe of [container.startupProbe, container.livenessProbe, container.readinessProbe]) {
      assert.equal(probe?.httpGet?.port, 'health');
    }
    assert.equal(container.readinessProbe?.httpGet?.path, '/readyz');
    assert.equal(
      container.env?.find(({ name }) => name === 'HEARTH_NODE')?.valueFrom?.fieldRef?.fieldPath,
      'spec.nodeName',
    );
    assert.equal(container.terminationMessagePolicy, 'FallbackToLogsOnError');
  });

  it('take limits, priority, selector and the sources of a group', () => {
    const group = {
      name: 'all',
      cacheDirectories: [{ path: '/mnt/a', budget: '1Ti' }, { path: '/mnt/models' }],
      nodeSelector: { gpu: 'yes' },
      resources: { limits: { memory: '8Gi', cpu: 4 } },
      priorityClassName: 'mine',
    };
    const cluster = sampleCluster({ nodeGroups: [group], origins: { directoryPrefixes: ['/mnt/models', '/srv'] } });
    const { pod, container, mounts } = podOf(build({ cluster }).agent);
    assert.deepEqual(container.resources, { limits: { memory: '8Gi', cpu: '4' } });
    assert.equal(pod.priorityClassName, 'mine');
    assert.deepEqual(mountAt(mounts, '/srv'), {
      name: 'source-0',
      mountPath: '/srv',
      readOnly: true,
      mountPropagation: 'HostToContainer',
    });
    assert.equal(mounts.filter(({ mountPath }) => mountPath === '/mnt/models').length, 1, 'one mount a path');
  });

  it('let Datasets read as the nodes in the namespaces that are listed, and in none by default', () => {
    const listed = (origins: object) => {
      const [config = ''] = Object.values(build({ cluster: sampleCluster({ origins }) }).configuration?.data ?? {});
      return JSON.parse(config).origins.nodeIdentity;
    };
    assert.deepEqual(listed({}), []);
    assert.deepEqual(listed({ nodeIdentity: { namespaces: ['team', 'other'] } }), ['team.', 'other.']);
  });

  it('let pods advise in the namespaces that are listed, and in none by default', () => {
    const granted = (spec: object) => {
      const [config = ''] = Object.values(build({ cluster: sampleCluster(spec) }).configuration?.data ?? {});
      const { adviseNamespaces, adviseClusterNamespaces } = JSON.parse(config).clients;
      return [adviseNamespaces, adviseClusterNamespaces];
    };
    assert.deepEqual(granted({}), [[], []]);
    const clients = { adviseNamespaces: ['team', 'other'], adviseClusterNamespaces: ['team'] };
    assert.deepEqual(granted({ clients }), [['team', 'other'], ['team']]);
  });

  it('scrub as fast and list as much as the StorageCluster says, by default as agents do by themselves', () => {
    const settings = (spec: object = {}) => {
      const [config = ''] = Object.values(build({ cluster: sampleCluster(spec) }).configuration?.data ?? {});
      const { engine, origins } = JSON.parse(config);
      return [engine.scrubRate, origins.maxEntries];
    };
    assert.deepEqual(settings(), [String(20 << 20), 2_000_000]);
    const group = { name: 'all', cacheDirectories: [{ path: '/mnt/a' }] };
    const scrubbing = (scrubRate: string) => ({ nodeGroups: [{ ...group, engine: { scrubRate } }] });
    assert.deepEqual(settings({ ...scrubbing('1Gi'), origins: { maxEntries: 10 } }), [String(1 << 30), 10]);
    assert.deepEqual(settings(scrubbing('0')), ['0', 2_000_000]);
  });

  it('pass the limits of nodes to their agents, in bytes, and none where there are none', () => {
    const settings = (limits?: object) => {
      const nodeGroups = [{ name: 'all', cacheDirectories: [{ path: '/mnt/a' }], limits }];
      const [config = ''] = Object.values(build({ cluster: sampleCluster({ nodeGroups }) }).configuration?.data ?? {});
      return JSON.parse(config).limits;
    };
    assert.equal(settings(), undefined);
    assert.deepEqual(settings({ origin: { total: '1Gi', warm: '100Mi' }, disk: { warm: '1.5M' } }), {
      origin: { total: String(1 << 30), warm: String(100 << 20) },
      peers: {},
      disk: { warm: '1500000' },
    });
  });

  it('have room for the listing of as many files as a dataset may have', () => {
    const limit = (maxEntries: number) => {
      const cluster = sampleCluster({ origins: { maxEntries } });
      return Number.parseInt(podOf(build({ cluster }).agent).container.resources?.limits?.memory ?? '', 10);
    };
    assert.equal(limit(10_000_000), limit(1));
    assert.ok((limit(100_000_000) - limit(1)) * 2 ** 20 > 90_000_000 * 616);
  });

  it('have a limit of memory by what they have to do, unless the group says otherwise', () => {
    const resources = (more: object = {}) => {
      const group = { name: 'all', cacheDirectories: [{ path: '/mnt/a', budget: '4Ti', freeFloor: '1Gi' }], ...more };
      return podOf(build({ cluster: sampleCluster({ nodeGroups: [group] }) }).agent).container.resources;
    };
    assert.deepEqual(resources(), {
      requests: { cpu: '100m', memory: '256Mi' },
      limits: { memory: `${6.25 * 1024 + 320 + 512}Mi` },
    });
    assert.equal(resources({ engine: { buffer: '4Gi' } })?.limits?.memory, `${6.25 * 1024 + 4096 + 512}Mi`);
    const two = [{ path: '/mnt/a' }, { path: '/mnt/b' }];
    assert.equal(resources({ cacheDirectories: two })?.limits?.memory, `${6.25 * 1024 + 320 + 2048}Mi`);
    assert.deepEqual(resources({ resources: { requests: { memory: '64Gi' } } }), {
      requests: { memory: '64Gi' },
      limits: { memory: `${64 * 1024 + 1}Mi` },
    });
    assert.deepEqual(resources({ resources: { limits: {} } }), { limits: {} });
  });

  it('have the arena of agents requested, taken and kept by their holders', () => {
    const of = (engine: object) => {
      const group = { name: 'all', cacheDirectories: [{ path: '/mnt/a' }], engine };
      const { agent, holder, configuration } = build({ cluster: sampleCluster({ nodeGroups: [group] }) });
      const { container } = podOf(holder);
      const command = container.command ?? [];
      return {
        taken: Number(command[command.indexOf('--arena-bytes') + 1]),
        resources: container.resources,
        agent: podOf(agent).container.resources,
        pages: JSON.parse(Object.values(configuration?.data ?? {})[0] ?? '').engine.pages,
      };
    };
    const ordinary = of({ buffer: '4Gi' });
    assert.equal(ordinary.taken, 4 * 2 ** 30);
    assert.deepEqual(ordinary.resources, {
      requests: { cpu: '10m', memory: `${4096 + 16}Mi` },
      limits: { memory: `${4096 + 256}Mi` },
    });
    assert.equal(ordinary.pages, undefined);
    const huge = of({ buffer: '4095Mi', hugePages: '2Mi' });
    assert.equal(huge.taken, 4 * 2 ** 30, 'whole pages');
    assert.deepEqual(huge.resources, {
      requests: { cpu: '10m', memory: '16Mi', 'hugepages-2Mi': '4096Mi' },
      limits: { memory: '256Mi', 'hugepages-2Mi': '4096Mi' },
    });
    assert.equal(huge.pages, 'huge-2Mi');
    assert.equal(Object.keys(huge.agent?.limits ?? {}).join(), 'memory', 'the agent uses what its holder has taken');
    assert.equal(of({ buffer: '1100Mi', hugePages: '1Gi' }).resources?.limits?.['hugepages-1Gi'], '2048Mi');
    assert.equal(of({ buffer: '32Mi' }).taken, 320 * 2 ** 20, 'the least of eight shards');
    assert.equal(of({ buffer: '32Mi', shards: 2 }).taken, 80 * 2 ** 20);
  });

  it('replace agents when what they read at their start changes, and never the holder', () => {
    const before = build();
    const secret = build({ startHash: 'other' });
    const budget = build({ cluster: sampleCluster({ logLevel: 'debug' }) });
    for (const changed of [secret, budget]) {
      assert.notDeepEqual(podOf(changed.agent).template, podOf(before.agent).template);
      assert.deepEqual(changed.holder, before.holder);
    }
    assert.equal(before.holder?.spec?.updateStrategy?.type, 'OnDelete');
    const { container, mounts } = podOf(before.holder);
    const folder = '/var/lib/hearth/models';
    assert.deepEqual(container.command, [
      'hearth-holder',
      ...['--socket', `${folder}/run/holder.sock`],
      ...['--volumes', folder],
      ...['--agent-absence', '900'],
      ...['--arena-bytes', String(320 * 2 ** 20)],
    ]);
    assert.deepEqual(container.readinessProbe?.exec?.command, [
      ...['hearth-holder', '--check', '--socket', `${folder}/run/holder.sock`],
    ]);
    assert.equal(container.livenessProbe, undefined);
    assert.ok(mounts.some((mount) => mount.mountPropagation === 'Bidirectional'));
  });

  it('place agents and holders by the labels of their nodes, whatever taints these have', () => {
    const of = (group: object) => {
      const cluster = sampleCluster({ nodeGroups: [{ name: 'all', cacheDirectories: [{ path: '/c' }], ...group }] });
      const { agent, holder } = build({ cluster });
      for (const set of [agent, holder]) {
        const { affinity, nodeSelector, tolerations } = podOf(set).pod;
        const { nodeSelectorTerms } = affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution ?? {};
        assert.deepEqual(nodeSelectorTerms, daemonTerms(cluster, cluster.spec.nodeGroups[0] as NodeGroup));
        assert.deepEqual(nodeSelector, { 'kubernetes.io/os': 'linux' });
        assert.deepEqual(tolerations, [{ operator: 'Exists' }], 'the node drains first');
      }
    };
    of({});
    of({ nodeSelector: { gpu: 'yes' }, tolerations: [{ key: 'dedicated', value: 'ml', effect: 'NoSchedule' }] });
  });

  it('have the labels, variables, accounts and places that the values of the chart give them', () => {
    const settings = (component: string) => ({
      serviceAccountName: `hearth-${component}`,
      podLabels: { team: component, 'app.kubernetes.io/component': 'none of this name' },
      podAnnotations: { note: component },
      extraEnv: [{ name: 'HTTPS_PROXY', value: `http://${component}` }],
    });
    const gpu = { key: 'gpu', operator: 'Exists' };
    const resources = { limits: { memory: '1Gi' } };
    const etcdSettings = {
      ...settings('etcd'),
      tolerations: [gpu],
      nodeSelector: { pool: 'system' },
      affinity: { nodeAffinity: {} },
      resources,
      priorityClassName: 'mine',
    };
    const pods = { agent: settings('agent'), holder: settings('holder'), etcd: etcdSettings };
    const sets = build({ environment: { ...environment, pods } });
    for (const component of ['agent', 'holder', 'etcd'] as const) {
      const { pod, container, template } = podOf(sets[component]);
      assert.equal(pod.serviceAccountName, `hearth-${component}`);
      assert.equal(pod.automountServiceAccountToken, false);
      assert.equal(template?.labels?.team, component);
      assert.equal(template?.labels?.['app.kubernetes.io/component'], component, 'it is chosen by this');
      assert.equal(template?.annotations?.note, component);
      assert.deepEqual(container.env?.at(-1), { name: 'HTTPS_PROXY', value: `http://${component}` });
    }
    const { pod, container } = podOf(sets.etcd);
    assert.deepEqual(pod.tolerations, [gpu, ...startup]);
    assert.deepEqual(pod.nodeSelector, { 'kubernetes.io/os': 'linux', pool: 'system' });
    assert.deepEqual([pod.affinity, pod.priorityClassName], [{ nodeAffinity: {} }, 'mine']);
    assert.deepEqual(container.resources, resources);
    assert.equal(pod.securityContext?.runAsUser, 65_532);
    const chosen = build({
      environment: { ...environment, pods: { ...pods, etcd: { ...etcdSettings, anyUser: true } } },
    });
    const { runAsNonRoot, runAsUser, fsGroup } = podOf(chosen.etcd).pod.securityContext ?? {};
    assert.deepEqual([runAsNonRoot, runAsUser, fsGroup], [true, undefined, undefined]);
  });

  it('wait with agents until the store has an address, but not with holders', () => {
    const { agent, configuration, holder, etcd } = build({ store: undefined });
    assert.equal(agent, undefined);
    assert.equal(configuration, undefined);
    assert.ok(holder && etcd);
  });

  it('run an etcd that no client enters without a certificate, restricted, and that tolerates the startup taint', () => {
    const { pod, container } = podOf(build().etcd);
    assert.equal(container.securityContext?.allowPrivilegeEscalation, false);
    assert.equal(pod.securityContext?.runAsNonRoot, true);
    assert.deepEqual(pod.tolerations, startup);
    for (const flag of ['--client-cert-auth=true', '--peer-client-cert-auth=true']) {
      assert.ok(container.command?.includes(flag), flag);
    }
    assert.ok(!container.command?.some((flag) => /listen-(client|peer)-urls=http:/.test(flag)));
    assert.ok(container.command?.includes('--initial-cluster=hearth-models-etcd-0=https://127.0.0.1:2380'));
  });

  it('replace the members of etcd when the authorities that they trust change, and in no upgrade', () => {
    const templates = [undefined, 'two'].map((trustHash) => podOf(build({ trustHash }).etcd).template);
    assert.deepEqual(templates[0], podOf(build().etcd).template);
    assert.equal(templates[0]?.annotations, undefined);
    assert.notDeepEqual(templates[1], templates[0]);
  });

  it('give three members names, room between them and volumes when asked', () => {
    const storage = { size: '8Gi', storageClassName: 'fast' };
    const cluster = sampleCluster({ store: { etcd: { replicas: 3, storage } } });
    const addresses = ['10.96.0.11', '10.96.0.12', '10.96.0.13'];
    const { etcd, objects } = build({ cluster, members: addresses });
    assert.equal(etcd?.spec?.replicas, 3);
    const { pod, container } = podOf(etcd);
    const members = container.command?.find((flag) => flag.startsWith('--initial-cluster='));
    assert.equal(members?.split(',').length, 3);
    assert.ok(
      members?.includes(
        'hearth-models-etcd-2=https://hearth-models-etcd-2.hearth-models-etcd-peers.hearth-system.svc:2380',
      ),
    );
    const names = pod.hostAliases?.map(({ ip, hostnames = [] }) => [ip, ...hostnames]);
    assert.deepEqual(names?.[2], ['10.96.0.13', 'hearth-models-etcd-2.hearth-models-etcd-peers.hearth-system.svc']);
    const service = (name: string) =>
      objects.find(({ kind, metadata }) => kind === 'Service' && metadata?.name === name) as Service | undefined;
    const third = service('hearth-models-etcd-2')?.spec;
    assert.equal(third?.selector?.['statefulset.kubernetes.io/pod-name'], 'hearth-models-etcd-2');
    assert.equal(third?.publishNotReadyAddresses, true, 'members become ready together');
    assert.equal(service('hearth-models-etcd-3'), undefined);
    assert.equal(build({ cluster, members: undefined }).etcd, undefined, 'it waits for the addresses');
    assert.ok(pod.affinity?.podAntiAffinity);
    assert.equal(etcd?.spec?.volumeClaimTemplates?.[0]?.spec?.storageClassName, 'fast');
    assert.ok(!pod.volumes?.some(({ name }) => name === 'data'));
  });

  it('run no etcd when endpoints are given, and mount what they ask for', () => {
    const given = { endpoints: ['https://10.0.0.1:2379'], secretRef: { name: 'etcd-client' } };
    const { etcd, service, agent } = build({ cluster: sampleCluster({ store: given }) });
    assert.equal(etcd ?? service, undefined);
    const { pod, mounts } = podOf(agent);
    assert.equal(pod.volumes?.find(({ name }) => name === 'store')?.secret?.secretName, 'etcd-client');
    assert.ok(mountAt(mounts, '/etc/hearth/store'));
  });

  it('keep secrets out of the ConfigMap', () => {
    const text = build().configuration?.data?.['agent.yaml'] ?? '';
    assert.match(text, /"secretFile": "\/etc\/hearth\/secret\/secret"/);
    assert.deepEqual(Object.keys(build().configuration?.data ?? {}), ['agent.yaml']);
  });

  it('have agents wait for disks, and look at the file system of the kubelet by an emptyDir of theirs', () => {
    const { agent, configuration } = build();
    const { onStartFailure, kubelet } = JSON.parse(configuration?.data?.['agent.yaml'] ?? '');
    assert.equal(onStartFailure, 'wait');
    const { pod, mounts } = podOf(agent);
    assert.deepEqual(mountAt(mounts, kubelet.directory), { name: 'tmp', mountPath: kubelet.directory });
    assert.deepEqual(pod.volumes?.find(({ name }) => name === 'tmp')?.emptyDir, {});
  });

  it('carry the pull secrets of the chart', () => {
    const { agent, holder, etcd } = build({ environment: { ...environment, imagePullSecrets: ['regcred'] } });
    for (const set of [agent, holder, etcd]) assert.deepEqual(podOf(set).pod.imagePullSecrets, [{ name: 'regcred' }]);
  });
});

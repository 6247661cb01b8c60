import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Outcome, ok, root, run, until, writeSample } from '@hearth/common/testing';
import { type Manifest, releaseNamespace } from '@hearth/common/testing/kubernetes';
import { FileOrigin } from '@hearth/common/testing/origins';
import { parseDocument } from 'yaml';
import type { KubernetesCluster } from '../cluster/kubernetes_cluster.ts';
import type { ClusterNode } from '../cluster/node.ts';
import { pod } from '../cluster/testing/pod.ts';
import { usage } from '../cluster/usage.ts';
import { useCluster } from './cluster_fixture.ts';

export const driver = 'csi.hearth.storage';
export const clusterName = 'main';
export const waiting = 'exec sleep 100000';
export const verifying = 'cd /models && sha256sum -c SHA256SUMS';

/** Hearth as a user has it: the chart, a StorageCluster on all nodes, and kubectl in one namespace. */
export class Journey {
  readonly cluster: KubernetesCluster;
  readonly namespace: string;
  /** Folder that all nodes see with the same content; directory sources may lie below it. */
  readonly shared: string;
  readonly #origin: FileOrigin | undefined;

  constructor(cluster: KubernetesCluster, namespace: string, origin?: FileOrigin) {
    this.cluster = cluster;
    this.namespace = namespace;
    this.#origin = origin;
    this.shared = join(cluster.folder, 'shared');
  }

  /** A web server that the nodes reach, for the bytes of its Datasets. */
  get origin(): FileOrigin {
    if (this.#origin === undefined) throw new Error(`the journey in ${this.namespace} has no origin`);
    return this.#origin;
  }

  /** The example, and what the origins of the tests need. */
  get storageCluster(): Manifest {
    const object = parseDocument(readFileSync(join(root, 'examples/storagecluster.yaml'), 'utf8')).toJS() as Manifest;
    object.spec.origins = {
      directoryPrefixes: [this.shared],
      allowedNetworks: [this.cluster.network.hostRange],
    };
    return object;
  }

  kubectl(args: string[], options: { input?: string; timeoutMs?: number } = {}): Promise<Outcome> {
    return this.cluster.kubectl(['-n', this.namespace, ...args], { timeoutMs: 330_000, ...options });
  }

  /** kubectl that must succeed; what it wrote. */
  must(...args: string[]): Promise<string> {
    return ok(this.kubectl(args));
  }

  apply(...objects: object[]): Promise<string> {
    const input = objects.map((one) => JSON.stringify(one)).join('\n---\n');
    return ok(this.kubectl(['apply', '-f', '-'], { input }));
  }

  /** An object as it is now; undefined if there is none. */
  async get(kind: string, name: string, namespace = this.namespace): Promise<Manifest | undefined> {
    const args = ['get', kind, name, '-n', namespace, '-o', 'json', '--ignore-not-found'];
    const text = await ok(this.cluster.kubectl(args));
    return text === '' ? undefined : (JSON.parse(text) as Manifest);
  }

  /** Waits until the condition Ready of `KIND/NAME` is true; when it is not in five minutes, says what its events say. */
  async ready(object: string, namespace = this.namespace): Promise<void> {
    const args = ['-n', namespace, 'wait', '--for=condition=Ready', '--timeout=300s', object];
    const { code, stderr } = await this.cluster.kubectl(args, { timeoutMs: 330_000 });
    assert.equal(code, 0, code === 0 ? '' : `${stderr}\n${await this.events(object.split('/')[1] ?? '')}`);
  }

  /** Waits until the condition Ready of an object has a reason; its message. */
  async reason(kind: string, name: string, reason: string): Promise<string> {
    let last = '';
    try {
      return await until(`${kind} ${name} is ${reason}`, async () => {
        const object = await this.get(kind, name);
        const ready = object?.status?.conditions?.find((one: { type: string }) => one.type === 'Ready');
        last = JSON.stringify(ready);
        return ready?.reason === reason && (ready.message as string);
      });
    } catch (error) {
      throw new Error(`${(error as Error).message}; it is ${last}`);
    }
  }

  /** Waits for an event of an object, which is written after what it reports; all of them. */
  async event(name: string, pattern: RegExp): Promise<string> {
    let found = '';
    await until(`an event ${pattern} of ${name}`, async () => {
      found = await this.events(name);
      return pattern.test(found);
    }).catch((error: Error) => {
      throw new Error(`${error.message}; there are: ${found}`);
    });
    return found;
  }

  /** `REASON: MESSAGE` of the events of an object, as they are now. */
  async events(name: string): Promise<string> {
    const fields = ['--field-selector', `involvedObject.name=${name}`, '--sort-by=.lastTimestamp'];
    return this.must('get', 'events', ...fields, '-o', 'jsonpath={range .items[*]}{.reason}: {.message}{"\\n"}{end}');
  }

  dataset(name: string, source: object, more: object = {}): Manifest {
    return {
      apiVersion: 'hearth.storage/v1alpha1',
      kind: 'Dataset',
      metadata: { name, namespace: this.namespace },
      spec: { source, ...more },
    };
  }

  claim(name: string, dataset = name): Manifest {
    return {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name, namespace: this.namespace },
      spec: {
        storageClassName: 'hearth',
        accessModes: ['ReadOnlyMany'],
        dataSourceRef: { apiGroup: 'hearth.storage', kind: 'Dataset', name: dataset },
        resources: { requests: { storage: '1Mi' } },
      },
    };
  }

  /** A claim of an empty volume that all nodes write. */
  scratchClaim(name: string, storage: string): Manifest {
    const resources = { requests: { storage } };
    const spec = { storageClassName: 'hearth-scratch', accessModes: ['ReadWriteMany'], resources };
    return { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata: { name, namespace: this.namespace }, spec };
  }

  /** A pod that runs a command with a volume at /models. */
  reader(
    name: string,
    volume: object,
    options: { command?: string; node?: string; subPath?: string; readOnly?: boolean; restartPolicy?: string } = {},
  ): Manifest {
    const { command = waiting, subPath, readOnly, restartPolicy = 'Never' } = options;
    const mount = { name: 'models', mountPath: '/models', subPath, readOnly };
    const container = { volumeMounts: [mount] };
    const made = pod(name, options.node ?? 'node1', command, {
      container,
      volumes: [{ name: 'models', ...volume }],
    });
    // Through the scheduler, which waits until claims are bound.
    const { nodeName, ...spec } = made.spec;
    const nodeSelector = { 'kubernetes.io/hostname': nodeName };
    return { ...made, spec: { ...spec, restartPolicy, nodeSelector } };
  }

  /** A pod that reads a file of a volume again and again, and fails when it is not what it should be. */
  watcher(name: string, volume: object, file: string, digest: string, more: object = {}): Manifest {
    const right = `[ "$(sha256sum < /models/${file})" = "${digest}  -" ]`;
    const command = `n=0; while ${right}; do n=$((n+1)); echo $n > /tmp/rounds; sleep 0.2; done; echo wrong after $n`;
    return this.reader(name, volume, { ...more, command });
  }

  /** How often a watcher has read its file; all of it was right, and it still reads. */
  async rounds(name: string): Promise<number> {
    const { code, stdout, stderr } = await this.inPod(name, 'cat /tmp/rounds || echo 0');
    if (code !== 0) assert.fail(`${stderr}${(await this.kubectl(['logs', name])).stdout}`);
    return Number(stdout);
  }

  inPod(name: string, command: string): Promise<Outcome> {
    return this.kubectl(['exec', name, '--', 'sh', '-c', command]);
  }

  /** Runs a pod until it ends; what it wrote. It must have succeeded. */
  async finished(name: string): Promise<string> {
    const phase = await until(`the end of pod ${name}`, async () => {
      const { phase } = (await this.get('pod', name))?.status ?? {};
      return ['Succeeded', 'Failed'].includes(phase) && (phase as string);
    }).catch(async (error) => {
      throw new Error(`${error.message}\n${await this.#diagnosis(name)}`);
    });
    const log = await this.must('logs', name);
    assert.equal(phase, 'Succeeded', log);
    return log;
  }

  /** The last log lines of the parts that give pods their volumes, and the events of a pod, the newest at the end. */
  async #diagnosis(name: string): Promise<string> {
    const said: string[] = [];
    for (const component of ['agent', 'csi-node']) {
      const select = ['-l', `app.kubernetes.io/component=${component}`, '--tail=5', '--prefix'];
      said.push((await this.cluster.kubectl(['-n', releaseNamespace, 'logs', ...select])).stdout);
    }
    const events = (await this.events(name)).trim().split('\n');
    return [...said, ...events].join('\n');
  }

  async remove(...objects: string[]): Promise<void> {
    await this.must('delete', '--timeout=300s', ...objects);
  }

  /** Writes files and their SHA256SUMS into a folder that all nodes see; it can be a directory source. */
  sample(name: string, sizes: Record<string, number>): string {
    const folder = join(this.shared, name);
    mkdirSync(folder, { recursive: true });
    const digests = writeSample(folder, sizes);
    writeFileSync(join(folder, 'SHA256SUMS'), [...digests].map(([path, digest]) => `${digest}  ${path}\n`).join(''));
    return folder;
  }

  /** The pods of a component of Hearth on a node. */
  async partOn(component: string, node: ClusterNode): Promise<Manifest[]> {
    const select = ['-l', `app.kubernetes.io/component=${component}`, '--field-selector', `spec.nodeName=${node.name}`];
    const args = ['-n', releaseNamespace, 'get', 'pods', ...select, '-o', 'json'];
    return JSON.parse(await ok(this.cluster.kubectl(args))).items as Manifest[];
  }
}

export const inline = (dataset: string, more: Record<string, string> = {}) => ({
  csi: { driver, readOnly: true, volumeAttributes: { dataset, ...more } },
});
export const ofClaim = (claimName: string) => ({ persistentVolumeClaim: { claimName, readOnly: true } });

/** Clusters that have the chart of this checkout. */
const installed = new WeakSet<KubernetesCluster>();

/** Installs the chart by the line that a person is to paste, as it is, after the first one. */
export async function installChart(cluster: KubernetesCluster): Promise<void> {
  const lines = (await usage(cluster)).split('\n').flatMap((line) => /^ {2}(\S.*)/.exec(line)?.[1] ?? []);
  const helm = lines.find((line) => line.startsWith('helm '));
  await ok(run('sh', ['-ec', `${lines[0]}\n${helm}`], { timeoutMs: 300_000 }));
}

/** Installs the chart and makes the StorageCluster, if they are not there; waits until all of it is ready. */
export async function install(journey: Journey, storageCluster = journey.storageCluster): Promise<void> {
  const { cluster } = journey;
  mkdirSync(journey.shared, { recursive: true });
  if (!installed.has(cluster)) {
    await installChart(cluster);
    installed.add(cluster);
  }
  if (!(await journey.get('storagecluster', clusterName))) await journey.apply(storageCluster);
  await journey.ready(`storagecluster/${clusterName}`);
}

/**
 * Hearth on the cluster of the run, and a namespace of its own for a suite. The first suite that wants it installs it;
 * the last one upgrades and uninstalls it.
 */
export function useJourney(namespace: string, options: { install?: boolean } = {}): () => Journey {
  const cluster = useCluster();
  let journey: Journey | undefined;
  let origin: FileOrigin | undefined;
  before(async () => {
    origin = await FileOrigin.start(cluster().network.hostAddress);
    journey = new Journey(cluster(), namespace, origin);
    // One of an earlier run may still be going.
    await until(
      'a new namespace',
      async () => (await journey?.kubectl(['create', 'namespace', namespace]))?.code === 0,
    );
    if (options.install !== false) await install(journey);
    const account = async () => (await journey?.kubectl(['get', 'serviceaccount', 'default']))?.code === 0;
    // The controller manager may still be finding the API server again.
    await until('the default service account', account);
  });
  after(async () => {
    if (!journey) return;
    // It goes by itself: Datasets stay until the mounts that are not used are unmounted, a minute later.
    await journey.must('delete', 'namespace', namespace, '--wait=false');
    rmSync(join(journey.shared, namespace), { recursive: true, force: true });
  });
  after(() => origin?.[Symbol.asyncDispose]());
  return () => {
    if (!journey) throw new Error('the journey begins once the tests run');
    return journey;
  };
}

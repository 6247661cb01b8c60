import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ok, tool, until } from '@hearth/common/testing';
import { Chart, type Manifest, podSpecs } from '@hearth/common/testing/kubernetes';
import { basicImages } from '../cluster/images/basic_images.ts';
import { Buildah } from '../cluster/images/buildah.ts';
import { hearthVersion } from '../cluster/images/hearth_image.ts';
import { pod } from '../cluster/testing/pod.ts';
import { TestRegistry, withLogins } from '../cluster/testing/registry.ts';
import { useCluster } from './cluster_fixture.ts';

const namespace = 'pulling';
const [user, password] = ['puller', 'a password'];

/** Pods with the images and pull secrets of the chart, which only end: a small image stands for that of Hearth in the registry. */
describe('images in a registry that wants a password', () => {
  const cluster = useCluster();
  let registry: TestRegistry;
  let chart: Chart;
  let folder: string;

  const kubectl = (...args: string[]) => cluster().kubectl(['-n', namespace, ...args]);

  before(async () => {
    chart = new Chart(await tool('helm'));
    folder = mkdtempSync(join(tmpdir(), 'hearth-pull-'));
    const { network, nodes } = cluster();
    registry = await TestRegistry.start(user, password, network.hostAddress);
    const { busybox } = await basicImages();
    const store = new Buildah(join(folder, 'store'));
    const push = () => store.publish(busybox, `${registry.host}/team/hearth:${hearthVersion()}`, { plain: true });
    await withLogins(join(folder, 'auth.json'), registry.login, push);
    nodes[0]?.allowPlainRegistry(registry.host);
    await ok(cluster().kubectl(['create', 'namespace', namespace]));
    const account = async () => (await kubectl('get', 'serviceaccount', 'default')).code === 0;
    await until('the default service account', account);
    const login = [`--docker-server=${registry.host}`, `--docker-username=${user}`, `--docker-password=${password}`];
    await ok(kubectl('create', 'secret', 'docker-registry', 'pull', ...login));
  });
  after(async () => {
    await cluster().kubectl(['delete', 'namespace', namespace, '--wait=false']);
    await registry?.[Symbol.asyncDispose]();
    if (folder) rmSync(folder, { recursive: true, force: true });
  });

  /** Of everything in the chart that makes pods, by its kind and name: a pod with its images and secrets, which it pulls. */
  async function pods(values: Record<string, unknown>): Promise<Manifest[]> {
    const objects = await chart.template({ 'global.imageRegistry': `${registry.host}/team`, ...values });
    return [...podSpecs(objects)].map(([object, { imagePullSecrets, containers }]) => {
      const name = object.replace(' ', '-').toLowerCase();
      const container = { image: containers[0].image, imagePullPolicy: 'Always' };
      const made = pod(name, 'node1', 'exit 0', { container });
      return { ...made, spec: { ...made.spec, restartPolicy: 'Never', imagePullSecrets } } as unknown as Manifest;
    });
  }
  const apply = (objects: Manifest[]) =>
    ok(
      cluster().kubectl(['-n', namespace, 'apply', '-f', '-'], {
        input: objects.map((one) => JSON.stringify(one)).join('\n---\n'),
      }),
    );
  const nameOf = ({ metadata }: Manifest): string => metadata.name;

  it('are pulled by every pod of the chart with its pull secrets', async () => {
    const made = await pods({ 'global.imagePullSecrets': ['pull'] });
    assert.deepEqual(made.map(nameOf).sort(), [
      'daemonset-hearth-csi-node',
      'deployment-hearth-operator',
      'job-hearth-cleanup',
      'pod-hearth-selftest',
    ]);
    await apply(made);
    for (const name of made.map(nameOf)) {
      // Events are written beside the status, sooner or later than it.
      await until(`${name} has run, with an image that was pulled`, async () => {
        const events = await eventsOf(name);
        assert.ok(!events.includes('Failed to pull image'), events);
        const { stdout } = await kubectl('get', 'pod', name, '-o', 'jsonpath={.status.phase}');
        return (
          stdout === 'Succeeded' && events.includes(`Pulled: Successfully pulled image "${registry.host}/team/hearth:`)
        );
      });
    }
  });

  it('are not pulled without them, and the event names the image and says that the password is missing', async () => {
    const [first] = await pods({});
    assert.ok(first);
    first.metadata.name = 'without';
    assert.equal(first.spec.imagePullSecrets, undefined);
    await apply([first]);
    const events = await until('an event that says so', async () => {
      const written = await eventsOf('without');
      return written.includes('Failed to pull image') && written;
    });
    assert.ok(events.includes(`"${registry.host}/team/hearth:${hearthVersion()}"`), events);
    assert.match(events, /no basic auth credentials|401 Unauthorized|authorization failed/);
    await until('the pod says so, after its event', async () => {
      const { stdout } = await kubectl('get', 'pod', 'without', '-o', 'jsonpath={..waiting.reason}');
      return /^(ErrImagePull|ImagePullBackOff)$/.test(stdout);
    });
  });

  async function eventsOf(name: string): Promise<string> {
    const fields = ['--field-selector', `involvedObject.name=${name}`];
    const columns = 'jsonpath={range .items[*]}{.reason}: {.message}{"\\n"}{end}';
    return ok(kubectl('get', 'events', ...fields, '-o', columns));
  }
});

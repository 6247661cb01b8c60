import assert from 'node:assert/strict';
import { ok, until } from '@hearth/common/testing';
import { releaseNamespace } from '@hearth/common/testing/kubernetes';
import { inline, useJourney, verifying } from './journey.ts';

describe('Datasets that cannot be read', () => {
  const journey = useJourney('refusals');

  it('refuses folders that no prefix allows, and shows nothing of them', async () => {
    await journey().apply(
      journey().dataset('etc', { directory: { path: '/etc' } }),
      journey().dataset('nothing', { directory: { path: '/not-there' } }),
      journey().dataset('beside', { directory: { path: `${journey().shared}-other` } }),
    );
    for (const name of ['etc', 'nothing', 'beside']) {
      assert.match(await journey().reason('dataset', name, 'DirectoryNotAllowed'), /directoryPrefixes/);
    }
  });

  it('refuses addresses of nodes and of clouds', async () => {
    const urls = ['http://127.0.0.1:7529/metrics', 'http://169.254.169.254/latest/meta-data', 'http://10.100.0.1/'];
    for (const [index, url] of urls.entries()) {
      const name = `address-${index}`;
      await journey().apply(journey().dataset(name, { http: { urls: [url] } }));
    }
    for (const index of urls.keys()) {
      await notReady(`address-${index}`, /address|network|allowedNetworks/i);
    }
  });

  /** Waits for Ready=False with a message and a reason. */
  async function notReady(name: string, message: RegExp): Promise<void> {
    let last = '';
    await until(`${name} says why it is not ready`, async () => {
      const conditions = (await journey().get('dataset', name))?.status?.conditions as Record<string, string>[];
      const ready = conditions?.find((one) => one.type === 'Ready');
      last = JSON.stringify(ready);
      return (
        ready?.status === 'False' && /^[A-Z][A-Za-z]+$/.test(ready.reason ?? '') && message.test(ready.message ?? '')
      );
    }).catch((error) => assert.fail(`${error.message}: ${last}`));
  }

  it('says that an origin cannot be reached, in the condition and an event, and recovers', async () => {
    const { hostAddress } = journey().cluster.network;
    await journey().apply(
      journey().dataset('closed', { http: { urls: [`http://${hostAddress}:9/model`] } }),
      journey().dataset('absent', {
        http: { urls: [journey().origin.add('x', Buffer.from('x')).replace(/x$/, 'absent')] },
      }),
    );
    await notReady('closed', new RegExp(hostAddress));
    await notReady('absent', /404|not/i);
    await journey().event('closed', new RegExp(hostAddress));
    journey().origin.add('absent', Buffer.from('now it is there'));
    await journey().ready('dataset/absent');
  });

  it('waits for a Secret, for the right to read it, and for its key; then reads with it', async () => {
    const token = 'a-token-that-nobody-may-see';
    const source = { http: { urls: [journey().origin.add('gated', Buffer.from('secret weights'), token)] } };
    await journey().apply(
      journey().dataset('open', source),
      journey().dataset('gated', source, { secretRef: { name: 'hub' } }),
    );
    await notReady('open', /401|credentials|refused/i);
    const forbidden = await journey().reason('dataset', 'gated', 'SecretForbidden');
    await journey().apply(
      journey().reader('gated', inline('gated'), { command: 'cat /models/gated' }),
      journey().reader('open', inline('open')),
    );
    const repeats = {
      gated: /\(SecretForbidden\): .*kubectl create rolebinding/,
      open: /\(\w+\): .*(401|credentials|refused)/i,
    };
    for (const [name, message] of Object.entries(repeats)) {
      const said = await journey().event(name, /FailedMount/);
      assert.match(said, new RegExp(`kubectl describe dataset -n refusals ${name}`));
      await journey().event(
        name,
        new RegExp(`DatasetNotReady: Dataset ${name} is not ready ${message.source}`, message.flags),
      );
    }
    await journey().remove('pod/open');
    const command = /kubectl create rolebinding .*/
      .exec(forbidden)?.[0]
      .replace(/[.;,]$/, '')
      .split(' ')
      .slice(1);
    assert.ok(command, forbidden);
    await ok(journey().cluster.kubectl(command));
    // The operator reads a Secret that it could not read again after 15 s, and looks at new Datasets at once.
    const base = { apiVersion: 'v1', kind: 'Secret' };
    const secret = (name: string, stringData: object) => ({ ...base, metadata: { name }, stringData });
    await journey().apply(
      journey().dataset('secretless', source, { secretRef: { name: 'later' } }),
      secret('empty', { wrong: 'x' }),
      journey().dataset('keyless', source, { secretRef: { name: 'empty' } }),
    );
    assert.match(await journey().reason('dataset', 'secretless', 'SecretNotFound'), /later/);
    assert.match(await journey().reason('dataset', 'keyless', 'SecretKeyMissing'), /token/);
    await journey().apply(secret('hub', { token }), secret('later', { token }), secret('empty', { token }));
    for (const name of ['gated', 'secretless', 'keyless']) await journey().ready(`dataset/${name}`);
    assert.equal(await journey().finished('gated'), 'secret weights');
    await journey().remove('pod/gated');

    const all = 'storageclusters,datasets,nodecaches,configmaps,events,daemonsets,persistentvolumes';
    const seen = await ok(journey().cluster.kubectl(['get', all, '-A', '-o', 'yaml']));
    assert.ok(!seen.includes(token), 'in no object');
    for (const component of ['agent', 'operator', 'csi-node']) {
      const select = ['-l', `app.kubernetes.io/component=${component}`, '--tail=-1', '--prefix'];
      const logs = await ok(journey().cluster.kubectl(['-n', releaseNamespace, 'logs', ...select]));
      assert.ok(!logs.includes(token), `in no log of ${component}`);
    }
  });

  it('lets a pod begin when its Dataset appears', async () => {
    await journey().apply(journey().reader('early', inline('later'), { command: verifying }));
    await journey().apply(journey().dataset('later', { selfTest: {} }));
    await journey().finished('early');
    await journey().remove('pod/early');
  });
});

import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { connect, createServer, type TLSSocket } from 'node:tls';
import type { SecretTexts } from '../kubernetes/index.ts';
import { authorityLifeMs, leafLifeMs } from './authority.ts';
import { agentName, planCertificates, type SecretRole } from './cluster_certificates.ts';

const models = { cluster: 'models', peers: ['*.peers.ns.svc'] };
const now = new Date('2026-03-01T12:00:00Z');
const after = (ms: number) => new Date(now.getTime() + ms);
const rolesOf = (plan: { write: { role: SecretRole }[] }) => plan.write.map(({ role }) => role);

describe('certificates of a cluster', () => {
  let first: Record<SecretRole, SecretTexts>;
  before(async () => {
    const plan = await planCertificates(models, {}, now);
    assert.deepEqual(rolesOf(plan), ['ca', 'agent', 'operator', 'etcd', 'secret']);
    first = plan.texts;
  });

  it('are made once and then left alone', async () => {
    const plan = await planCertificates(models, first, after(1000));
    assert.deepEqual(plan.write, []);
    assert.deepEqual(plan.texts, first);
    assert.ok(plan.renewAt.getTime() < plan.expiresAt.getTime());
  });

  it('have the names, uses and lives that are promised', () => {
    const agent = new X509Certificate(first.agent['tls.crt'] ?? '');
    assert.equal(agent.subjectAltName, 'DNS:agent.models.hearth');
    assert.equal(agent.ca, false);
    assert.deepEqual(agent.keyUsage, ['1.3.6.1.5.5.7.3.2', '1.3.6.1.5.5.7.3.1']);
    assert.equal(agent.validToDate.getTime(), now.getTime() + leafLifeMs);
    assert.equal(agent.publicKey.asymmetricKeyDetails?.namedCurve, 'prime256v1');
    const etcd = new X509Certificate(first.etcd['tls.crt'] ?? '');
    assert.equal(etcd.subjectAltName, 'DNS:etcd.models.hearth, DNS:*.peers.ns.svc');
    const operator = new X509Certificate(first.operator['tls.crt'] ?? '');
    assert.deepEqual(operator.keyUsage, ['1.3.6.1.5.5.7.3.2'], 'the operator serves nothing with it');
    const authority = new X509Certificate(first.ca['ca.crt'] ?? '');
    assert.equal(authority.ca, true);
    assert.equal(authority.validToDate.getTime(), now.getTime() + authorityLifeMs);
    assert.equal(Buffer.from(first.secret.secret ?? '', 'base64').length, 32);
  });

  it('keep the key of the authority out of the Secrets that pods mount', () => {
    for (const role of ['agent', 'operator', 'etcd', 'secret'] as const) {
      assert.ok(!Object.values(first[role]).includes(first.ca['ca.key'] ?? ''), role);
    }
  });

  it('are renewed when two thirds of their life are over', async () => {
    assert.deepEqual(rolesOf(await planCertificates(models, first, after(leafLifeMs * 0.66))), []);
    const plan = await planCertificates(models, first, after(leafLifeMs * 0.67));
    assert.deepEqual(rolesOf(plan), ['agent', 'operator', 'etcd']);
    assert.equal(plan.texts.agent['ca.crt'], first.agent['ca.crt']);
  });

  const damages: [what: string, role: SecretRole, texts: SecretTexts, written: SecretRole[]][] = [
    ['a deleted leaf', 'agent', {}, ['agent']],
    ['a leaf that is no PEM', 'etcd', { 'tls.crt': 'x', 'tls.key': 'y' }, ['etcd']],
    ['a short secret', 'secret', { secret: 'short' }, ['secret']],
    ['a lost authority', 'ca', {}, ['ca', 'agent', 'operator', 'etcd']],
  ];
  for (const [what, role, texts, written] of damages) {
    it(`repair ${what} and what depends on it`, async () => {
      const plan = await planCertificates(models, { ...first, [role]: texts }, after(1000));
      assert.deepEqual(rolesOf(plan), written);
      assert.deepEqual(rolesOf(await planCertificates(models, plan.texts, after(2000))), []);
    });
  }

  it("refuse another cluster's leaf and a key that belongs to another certificate", async () => {
    const other = await planCertificates({ ...models, cluster: 'other' }, {}, now);
    const foreign = await planCertificates(models, { ...first, agent: other.texts.agent }, now);
    assert.deepEqual(rolesOf(foreign), ['agent']);
    const swapped = { ...first.agent, 'tls.key': first.etcd['tls.key'] ?? '' };
    assert.deepEqual(rolesOf(await planCertificates(models, { ...first, agent: swapped }, now)), ['agent']);
  });

  it('keep the former authority in the bundle until it is over', async () => {
    const late = after(authorityLifeMs * 0.7);
    const plan = await planCertificates(models, first, late);
    assert.deepEqual(rolesOf(plan), ['ca', 'agent', 'operator', 'etcd']);
    const certificates = (text = '') => text.match(/BEGIN CERTIFICATE/g)?.length;
    assert.equal(certificates(plan.texts.agent['ca.crt']), 2);
    assert.deepEqual(rolesOf(await planCertificates(models, plan.texts, late)), []);
    const ended = await planCertificates(models, plan.texts, after(authorityLifeMs + 1));
    assert.equal(certificates(ended.texts.agent['ca.crt']), 1);
    assert.ok(!ended.write.some(({ reason }) => reason.includes('another authority')));
  });

  it('work in mutual TLS, and only with each other', async () => {
    const texts = (await planCertificates(models, {}, new Date())).texts;
    const stranger = (await planCertificates(models, {}, new Date())).texts;
    const { agent } = texts;
    const server = createServer({
      key: agent['tls.key'],
      cert: agent['tls.crt'],
      ca: agent['ca.crt'],
      requestCert: true,
      rejectUnauthorized: true,
    });
    server.on('secureConnection', (socket) => socket.on('error', () => undefined).end('hello'));
    server.on('tlsClientError', () => undefined);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
    const talk = (client: SecretTexts, ca: string | undefined, servername: string) =>
      new Promise<string>((resolve, reject) => {
        const credentials = { key: client['tls.key'], cert: client['tls.crt'], ca };
        const socket: TLSSocket = connect({ port, host: '127.0.0.1', servername, ...credentials });
        socket.setTimeout(300_000, () => socket.destroy(new Error('no answer')));
        let text = '';
        socket.on('data', (data) => (text += data));
        socket.on('error', reject).on('end', () => (text === '' ? reject(new Error('refused')) : resolve(text)));
      });
    try {
      assert.equal(await talk(texts.operator, texts.operator['ca.crt'], agentName('models')), 'hello');
      await assert.rejects(talk(stranger.operator, texts.operator['ca.crt'], agentName('models')));
      await assert.rejects(talk(texts.operator, stranger.operator['ca.crt'], agentName('models')));
      await assert.rejects(talk(texts.operator, texts.operator['ca.crt'], agentName('other')));
    } finally {
      server.close();
    }
  });
});

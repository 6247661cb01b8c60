import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { connect, createServer, type Server } from 'node:tls';
import type { SecretTexts } from '../kubernetes/index.ts';
import { authorityLifeMs, createAuthority, issueLeaf, leafLifeMs } from './authority.ts';
import { agentName, etcdName, operatorName, planCertificates, type SecretRole } from './cluster_certificates.ts';

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
    assert.equal(plan.authorities.length, 2);
    assert.equal(plan.texts.agent['ca.crt'], plan.authorities.join(''));
    assert.deepEqual(rolesOf(await planCertificates(models, plan.texts, late)), []);
    const ended = await planCertificates(models, plan.texts, after(authorityLifeMs + 1));
    assert.equal(ended.authorities.length, 1);
    assert.equal(ended.texts.agent['ca.crt'], ended.authorities[0]);
    assert.ok(!ended.write.some(({ reason }) => reason.includes('another authority')));
  });

  it('work in mutual TLS, and only with each other', async () => {
    const texts = (await planCertificates(models, {}, new Date())).texts;
    const stranger = (await planCertificates(models, {}, new Date())).texts;
    const trusting = (ca: string | undefined) => ({ ...texts.operator, 'ca.crt': ca ?? '' });
    await using server = await TlsServer.start(texts.agent);
    assert.equal(await server.answer(texts.operator, agentName('models')), 'hello');
    await assert.rejects(
      server.answer({ ...stranger.operator, 'ca.crt': texts.ca['ca.crt'] ?? '' }, agentName('models')),
    );
    await assert.rejects(server.answer(trusting(stranger.ca['ca.crt']), agentName('models')));
    await assert.rejects(server.answer(texts.operator, agentName('other')));
  });

  it('work in mutual TLS before, while and after peers learn of a new authority', async () => {
    // TLS checks validity by the clock of the machine, so the change of authority begins two days ago.
    const began = new Date(Date.now() - 2 * 86_400_000);
    const old = await agedAuthority(began);
    const renewed = await planCertificates(models, old, began);
    assert.equal(renewed.texts.agent['tls.crt'], old.agent['tls.crt'], 'the former authority signs on');
    const soon = new Date(began.getTime() + 60_000);
    assert.deepEqual(rolesOf(await planCertificates(models, renewed.texts, soon)), [], 'nothing is written again');
    assert.ok(renewed.renewAt > soon);
    const signed = await planCertificates(models, renewed.texts, renewed.renewAt);
    assert.deepEqual(rolesOf(signed), ['agent', 'operator', 'etcd']);

    // Each step meets itself, and the step before or after it.
    const steps = [old, renewed.texts, signed.texts];
    for (const [index, { agent }] of steps.entries()) {
      await using server = await TlsServer.start(agent);
      for (const { operator } of steps.slice(Math.max(0, index - 1), index + 2)) {
        assert.equal(await server.answer(operator, agentName('models')), 'hello');
      }
    }
    await using ahead = await TlsServer.start(signed.texts.agent);
    await assert.rejects(ahead.answer(old.operator, agentName('models')), 'the overlap is needed');
  });
});

/** Secrets of a cluster whose authority is old, and whose leaves are as old as `at`. */
async function agedAuthority(at: Date): Promise<Record<SecretRole, SecretTexts>> {
  const authority = await createAuthority('Hearth cluster models', new Date(at.getTime() - authorityLifeMs * 0.7));
  const ca = { 'ca.crt': authority.certificate, 'ca.key': authority.key };
  const leaf = async (names: string[], server: boolean): Promise<SecretTexts> => {
    const { certificate, key } = await issueLeaf(authority, { commonName: names[0] ?? '', names, server }, at);
    return { 'tls.crt': certificate, 'tls.key': key, 'ca.crt': authority.certificate };
  };
  return {
    ca,
    agent: await leaf([agentName('models')], true),
    operator: await leaf([operatorName('models')], false),
    etcd: await leaf([etcdName('models'), ...models.peers], true),
    secret: { secret: 'x'.repeat(32) },
  };
}

/** Says hello to clients with a certificate that it trusts. */
class TlsServer implements AsyncDisposable {
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(texts: SecretTexts): Promise<TlsServer> {
    const server = createServer({ ...credentialsOf(texts), requestCert: true, rejectUnauthorized: true });
    server.on('secureConnection', (socket) => socket.on('error', () => undefined).end('hello'));
    server.on('tlsClientError', () => undefined);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new TlsServer(server);
  }

  answer(client: SecretTexts, servername: string): Promise<string> {
    const { port } = this.#server.address() as AddressInfo;
    return new Promise<string>((resolve, reject) => {
      const socket = connect({ port, host: '127.0.0.1', servername, ...credentialsOf(client) });
      socket.setTimeout(300_000, () => socket.destroy(new Error('no answer')));
      let text = '';
      socket.on('data', (data) => (text += data));
      socket.on('error', reject).on('end', () => (text === '' ? reject(new Error('refused')) : resolve(text)));
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
  }
}

function credentialsOf(texts: SecretTexts) {
  return { key: texts['tls.key'], cert: texts['tls.crt'], ca: texts['ca.crt'] };
}

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DaemonProcess, elapse, until } from '../testing/index.ts';
import { apiOf, startApiServer, type TestApiServer } from '../testing/kubernetes/index.ts';
import { type KubernetesApi, kinds } from './index.ts';
import { CutProxy } from './testing/cut_proxy.ts';

/** Lease duration. A leader on a busy machine renews within two thirds of it. */
const leaseSeconds = 15;

/** A process that competes for the lease. */
class Replica {
  readonly identity: string;
  readonly #program: DaemonProcess;

  constructor(kubeconfig: string, identity: string, seconds: number) {
    this.identity = identity;
    const script = join(import.meta.dirname, 'testing/leader_process.ts');
    this.#program = new DaemonProcess(process.execPath, [script, kubeconfig, identity, String(seconds)]);
  }

  /** Start and end of each term by the machine's clock; the last term may not have ended. */
  get terms(): { from: number; to: number }[] {
    const terms: { from: number; to: number }[] = [];
    for (const [word, time] of this.#program.said.stdout.split('\n').map((line) => line.split(' '))) {
      if (word === 'leads') terms.push({ from: Number(time), to: Number.POSITIVE_INFINITY });
      const last = terms.at(-1);
      if (word === 'ends' && last !== undefined) last.to = Number(time);
    }
    return terms;
  }

  get leads(): boolean {
    return this.terms.at(-1)?.to === Number.POSITIVE_INFINITY;
  }

  signal(name: NodeJS.Signals): void {
    this.#program.child.kill(name);
  }

  /** A stopped process receives the signal when it continues. */
  async end(name: NodeJS.Signals): Promise<void> {
    const ended = this.#program.end(name);
    this.signal('SIGCONT');
    await ended;
  }
}

describe('Leader election against a real API server', () => {
  let server: TestApiServer;
  let api: KubernetesApi;
  const replicas: Replica[] = [];
  const proxies: CutProxy[] = [];
  before(async function () {
    server = await startApiServer(this);
    api = apiOf(server.kubeconfig);
  });
  afterEach(async () => {
    await Promise.all(replicas.splice(0).map((replica) => replica.end('SIGKILL')));
    await Promise.all(proxies.splice(0).map((proxy) => proxy.close()));
    await api?.delete(kinds.Lease, 'replicas', 'default');
  });
  after(async () => {
    api?.close();
    await server?.stop();
  });

  /** Two replicas, each on its own network; the first one leads. */
  const compete = async (seconds = leaseSeconds): Promise<{ a: Replica; b: Replica; network: CutProxy }> => {
    const network = await CutProxy.start(server.url);
    proxies.push(network);
    const a = new Replica(network.kubeconfig(server.kubeconfig, 'a'), 'a', seconds);
    replicas.push(a);
    await until('a leads', () => a.leads);
    const b = new Replica(server.kubeconfig, 'b', seconds);
    replicas.push(b);
    return { a, b, network };
  };
  const neverTwo = (a: Replica, b: Replica): void => {
    for (const one of a.terms) {
      for (const other of b.terms) {
        const apart = one.to <= other.from || other.to <= one.from;
        assert.ok(apart, `both led: ${JSON.stringify({ a: a.terms, b: b.terms })}`);
      }
    }
  };

  it('hands over at once when the leader ends cleanly', async () => {
    const { a, b } = await compete(300);
    await elapse(1_500, 'the other one would lead too');
    assert.ok(!b.leads);
    await a.end('SIGTERM');
    await until('b leads', () => b.leads);
    neverTwo(a, b);
    const handover = (b.terms[0]?.from ?? 0) - (a.terms[0]?.to ?? 0);
    assert.ok(handover < 30_000, `${handover} ms, sooner than the lease of 300 s`);
    const lease = await api.get(kinds.Lease, 'replicas', 'default');
    assert.equal(lease?.spec?.holderIdentity, 'b');
    assert.equal(lease?.spec?.leaseTransitions, 1);
  });

  it('elects another leader when one is killed', async () => {
    const { a, b } = await compete();
    await a.end('SIGKILL');
    await until('b leads', () => b.leads);
  });

  it('never has two leaders when the network of one hangs, and recovers afterwards', async () => {
    const { a, b, network } = await compete();
    network.freeze();
    await until('b leads', () => b.leads);
    // The end of a's term may be reported after the start of b's.
    await until('a has ended its term', () => !a.leads);
    network.thaw();
    await elapse(2_000, 'the former one would lead again');
    assert.ok(b.leads && !a.leads);
    neverTwo(a, b);
  });

  it('ends the term of a leader that was stopped for longer than its lease', async () => {
    const { a, b } = await compete();
    a.signal('SIGSTOP');
    await until('b leads', () => b.leads);
    a.signal('SIGCONT');
    const resumed = Number(process.hrtime.bigint() / 1_000_000n);
    await until('a has ended', () => !a.leads);
    const late = (a.terms[0]?.to ?? 0) - resumed;
    assert.ok(late < (leaseSeconds * 1000) / 2, `${late} ms, and not for another lease`);
    await elapse(1_500, 'the former one would lead again');
    assert.ok(b.leads && !a.leads);
  });

  it('elects a leader again after an outage of the API server', async () => {
    const { a, b } = await compete();
    await server.down();
    await until('nobody leads', () => !a.leads && !b.leads);
    await server.up();
    await until('somebody leads', () => a.leads || b.leads);
    await elapse(1_000, 'the other one would lead too');
    neverTwo(a, b);
  });
});

// A replica for the tests of leader election: `node leader_process.ts KUBECONFIG IDENTITY [LEASE_SECONDS]` prints a
// line with the machine's monotonic time (ms) at the start and end of each term. Exits cleanly on SIGTERM.
import { createLogger } from '../../index.ts';
import { apiOf } from '../../testing/kubernetes/index.ts';
import { LeaderElection } from '../index.ts';

const [kubeconfig = '', identity = '', leaseSeconds = '15'] = process.argv.slice(2);
const machineTime = () => Number(process.hrtime.bigint() / 1_000_000n);
const say = (word: string) => process.stdout.write(`${word} ${machineTime()}\n`);
const stop = new AbortController();
process.on('SIGTERM', () => stop.abort());

const election = new LeaderElection({
  api: apiOf(kubeconfig, { deadlineMs: 2_000 }),
  namespace: 'default',
  name: 'replicas',
  identity,
  leaseSeconds: Number(leaseSeconds),
  renewSeconds: (Number(leaseSeconds) * 2) / 3,
  retrySeconds: 0.4,
  logger: createLogger({ level: 'error', format: 'json' }),
});
say('ready');
await election.run(async (signal) => {
  say('leads');
  await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
  say('ends');
}, stop.signal);
process.exit(0);

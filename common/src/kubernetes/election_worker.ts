// The thread of an ElectionThread: competes for the lease, and renews it whatever the main thread does.
import { parentPort, workerData } from 'node:worker_threads';
import { HearthError } from '../error.ts';
import type { LogFields, Logger, LogLevel } from '../logger.ts';
import type { ElectionWorkerData, FromElection, ToElection } from './election_thread.ts';
import { KubernetesApi } from './kubernetes_api.ts';
import { LeaderElection } from './leader_election.ts';

if (parentPort === null) throw new HearthError('Internal', 'election_worker is started as a worker thread only.');
const port = parentPort;
const { userAgent, ...options } = workerData as ElectionWorkerData;
const say = (message: FromElection) => port.postMessage(message);

const stop = new AbortController();
let work = Promise.withResolvers<void>();
port.on('message', (message: ToElection) => {
  if (message === 'stop') stop.abort();
  else if (message === 'ended') work.resolve();
  else work.reject(new HearthError('Internal', 'the work of the leader failed'));
});

/** Errors do not pass between threads as they are. */
function plain(fields: LogFields): LogFields {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      value instanceof Error ? HearthError.from(value).message : value,
    ]),
  );
}

function loggerOf(fixed: LogFields): Logger {
  const log = (level: LogLevel, message: string, fields: LogFields = {}) =>
    say({ kind: 'log', level, message, fields: plain({ ...fixed, ...fields }) });
  const at = (level: LogLevel) => (message: string, fields?: LogFields) => log(level, message, fields);
  const levels = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
  return { log, ...levels, child: (fields) => loggerOf({ ...fixed, ...fields }) };
}

const api = KubernetesApi.fromDefault({ userAgent });
const election = new LeaderElection({
  ...options,
  api,
  logger: loggerOf({}),
  onLeader: (identity) => say({ kind: 'leader', identity }),
});
await election.run(async (signal) => {
  work = Promise.withResolvers<void>();
  say({ kind: 'won' });
  signal.addEventListener('abort', () => say({ kind: 'lost' }), { once: true });
  await work.promise;
}, stop.signal);
api.close();
port.close();

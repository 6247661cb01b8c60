import { HearthError, sleep } from '@hearth/common';
import { Command } from 'commander';
import { renderBar } from '../../format/progress.ts';
import { formatBytes, formatRate } from '../../format/quantity.ts';
import { type ActionContext, examples, type Output, watchSeconds } from '../../output.ts';
import { metricsText, sumsOf } from '../agent_metrics.ts';
import { type AgentPod, agentPods } from '../agent_pods.ts';
import { actOnCluster, type ClusterSession } from '../cluster_session.ts';
import { watch } from '../watch.ts';

const defaultInterval = 2;
const barWidth = 12;

/** Current activity of an agent. Rates are bytes a second; null: unknown. */
interface Activity {
  node: string;
  usedBytes: number | null;
  budgetBytes: number | null;
  pinnedBytes: number | null;
  originRate: number | null;
  peerInRate: number | null;
  peerOutRate: number | null;
  readRate: number | null;
  evictedRate: number | null;
  /** Reason why the activity is unknown. */
  trouble: string;
}

interface Sample {
  pod: AgentPod;
  atMs: number;
  sums: Map<string, number> | undefined;
  trouble: string;
}

export function topCommand(context: ActionContext): Command {
  return new Command('top')
    .description('Show the activity of agents: bytes a second from origins, from and to other nodes, and to readers.')
    .option('--interval <seconds>', `time over which rates are measured (default: ${defaultInterval})`, watchSeconds)
    .option('--watch', 'refresh after each interval')
    .addHelpText('after', examples(context, 'top', 'top --watch', 'top --interval 10 --json'))
    .action(
      actOnCluster(context, async (session: ClusterSession, options: { interval?: number; watch?: true }) => {
        const { clock, interrupt } = session.terminal;
        const seconds = options.interval ?? defaultInterval;
        let before = await sample(session);
        const look = async () => {
          const now = await sample(session);
          const activities = activitiesOf(before, now);
          before = now;
          return activities;
        };
        await sleep(clock, seconds * 1000, interrupt);
        if (options.watch) {
          await watch(session, seconds, look, printActivities);
          return undefined;
        }
        const activities = await look();
        if (session.json) session.printJson(activities);
        else printActivities(session, activities);
        return undefined;
      }),
    );
}

/**
 * Metrics of all agents. An agent that does not answer yields its reason; lacking rights to ask any agent is an error.
 */
async function sample(session: ClusterSession): Promise<Sample[]> {
  const pods = await agentPods(session);
  return await Promise.all(
    pods.map(async (pod) => {
      try {
        const sums = sumsOf(await metricsText(session, pod));
        return { pod, atMs: session.terminal.clock.now(), sums, trouble: '' };
      } catch (thrown) {
        const error = HearthError.from(thrown);
        if (error.code === 'PermissionDenied' || error.code === 'Cancelled') throw error;
        return { pod, atMs: session.terminal.clock.now(), sums: undefined, trouble: error.message };
      }
    }),
  );
}

function activitiesOf(before: Sample[], now: Sample[]): Activity[] {
  const earlier = new Map(before.map((one) => [one.pod.name, one]));
  return now.map(({ pod, atMs, sums, trouble }) => {
    const first = earlier.get(pod.name);
    const seconds = first === undefined ? 0 : (atMs - first.atMs) / 1000;
    const level = (name: string) => sums?.get(name) ?? null;
    const rate = (name: string) => {
      const [last, base] = [sums?.get(name), first?.sums?.get(name)];
      // A counter that decreased belongs to a restarted agent.
      if (last === undefined || base === undefined || seconds <= 0 || last < base) return null;
      return (last - base) / seconds;
    };
    return {
      node: pod.node,
      usedBytes: level('hearth_cache_used_bytes'),
      budgetBytes: level('hearth_cache_budget_bytes'),
      pinnedBytes: level('hearth_pinned_bytes'),
      originRate: rate('hearth_origin_bytes_total'),
      peerInRate: rate('hearth_peer_received_bytes_total'),
      peerOutRate: rate('hearth_peer_sent_bytes_total'),
      readRate: rate('hearth_demand_bytes_total'),
      evictedRate: rate('hearth_evicted_bytes_total'),
      trouble,
    };
  });
}

function printActivities(output: Output, rows: Activity[]): void {
  const bytes = (value: number | null) => (value === null ? '-' : formatBytes(Math.round(value)));
  const rate = (value: number | null) => (value === null ? '-' : formatRate(Math.round(value)));
  const fraction = ({ usedBytes, budgetBytes }: Activity) => (budgetBytes ? (usedBytes ?? 0) / budgetBytes : 0);
  output.printTable(
    [
      { title: 'NODE', value: ({ node }) => node },
      { title: 'CACHE', value: (one) => renderBar(fraction(one), barWidth, output.terminal.unicode) },
      { title: 'USED', value: ({ usedBytes }) => bytes(usedBytes), align: 'right' },
      { title: 'PINNED', value: ({ pinnedBytes }) => bytes(pinnedBytes), align: 'right', dispensable: 2 },
      { title: 'FROM ORIGIN', value: ({ originRate }) => rate(originRate), align: 'right' },
      { title: 'FROM PEERS', value: ({ peerInRate }) => rate(peerInRate), align: 'right' },
      { title: 'TO PEERS', value: ({ peerOutRate }) => rate(peerOutRate), align: 'right' },
      { title: 'READ', value: ({ readRate }) => rate(readRate), align: 'right' },
      { title: 'EVICTED', value: ({ evictedRate }) => rate(evictedRate), align: 'right', dispensable: 1 },
      { title: 'TROUBLE', value: ({ trouble }) => trouble, flexible: true, omitEmpty: true },
    ],
    rows,
  );
}

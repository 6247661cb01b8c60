import { HearthError } from '@hearth/common';
import { type KubernetesObject, kinds, type ResourceType } from '@hearth/common/kubernetes';
import { Command } from 'commander';
import { paint, printable, toneOf } from '../../format/paint.ts';
import { type ActionContext, examples } from '../../output.ts';
import { type AgentPod, agentContainer, agentPods } from '../agent_pods.ts';
import { actOnCluster, type ClusterSession } from '../cluster_session.ts';
import { outputInPod } from '../pod_program.ts';

/** A row of `hearth doctor --json` and its node; '' is the cluster. */
export interface Finding {
  node: string;
  name: string;
  status: string;
  detail: string;
  advice: string;
}

const oldestMinor = 30;

export function doctorCommand(context: ActionContext): Command {
  return new Command('doctor')
    .description(
      "Check the installation, and each node by `hearth doctor` in its agent's pod.\n\n" +
        'Prints what is degraded or missing; --all prints everything. Exits with 13 when a requirement is missing.',
    )
    .option('--all', 'also print rows that are in order')
    .addHelpText('after', examples(context, 'doctor', 'doctor --all', 'doctor --json'))
    .action(
      actOnCluster(context, async (session: ClusterSession, options: { all?: true }) => {
        const { findings, isBroken } = await examine(session);
        if (session.json) session.printJson({ findings });
        else print(session, options.all ? findings : findings.filter(({ status }) => status !== 'ok'), findings.length);
        return isBroken ? 13 : undefined;
      }),
    );
}

/** Checks the cluster, then collects the rows of every node. */
export async function examine(session: ClusterSession): Promise<{ findings: Finding[]; isBroken: boolean }> {
  const ofCluster = await clusterFindings(session);
  const pods = await agentPods(session).catch((thrown: unknown): AgentPod[] => {
    const { code, message } = HearthError.from(thrown);
    const [detail = '', advice = ''] = message.split('; ');
    if (code !== 'NotFound') throw thrown;
    ofCluster.push({ node: '', name: 'agents', status: 'missing', detail, advice });
    return [];
  });
  const onNodes = await Promise.all(pods.map((pod) => nodeFindings(session, pod)));
  const isBroken =
    ofCluster.some(({ status }) => status === 'missing') || onNodes.some(({ isBroken: broken }) => broken);
  return { findings: [...ofCluster, ...onNodes.flatMap(({ findings }) => findings)], isBroken };
}

async function clusterFindings(session: ClusterSession): Promise<Finding[]> {
  const { api } = await session.cluster();
  const namespace = session.releaseNamespace;
  const signal = session.signal();
  const labelSelector = 'app.kubernetes.io/name=hearth';
  const [version, clusters, deployments, daemonSets] = await Promise.all([
    api.text('get its version', '/version', signal),
    listed(api.list(kinds.StorageCluster, {}, signal)),
    listed(api.list(kinds.Deployment, { namespace, labelSelector }, signal)),
    listed(api.list(kinds.DaemonSet, { namespace, labelSelector }, signal)),
  ]);
  return [
    versionFinding(version),
    ...presence(clusters, kinds.StorageCluster, 'kubectl apply -f examples/storagecluster.yaml makes one.'),
    ...clusters.map(({ metadata, status }) => {
      const ready = status?.conditions?.find(({ type }) => type === 'Ready');
      const isReady = ready?.status === 'True';
      const detail = `${status?.nodesReady ?? 0} of ${status?.nodesDesired ?? 0} nodes ready`;
      const advice = isReady ? '' : (ready?.message ?? 'The operator has not observed it yet.');
      return finding(`StorageCluster ${metadata.name}`, isReady, detail, advice);
    }),
    ...presence(deployments, kinds.Deployment, `Is the release in ${namespace}? HEARTH_NAMESPACE names another one.`),
    ...deployments.map(({ metadata, spec, status }) => {
      const [ready, wanted] = [status?.availableReplicas ?? 0, spec?.replicas ?? 1];
      const advice = `kubectl describe deployment -n ${namespace} ${metadata?.name}`;
      return finding(`Deployment ${metadata?.name}`, ready >= wanted, `${ready} of ${wanted} available`, advice);
    }),
    ...daemonSets.map(({ metadata, status }) => {
      const [ready, wanted] = [status?.numberReady ?? 0, status?.desiredNumberScheduled ?? 0];
      const advice = `kubectl get pods -n ${namespace} -o wide`;
      return finding(`DaemonSet ${metadata?.name}`, ready >= wanted, `${ready} of ${wanted} ready`, advice);
    }),
  ];
}

async function listed<T>(list: Promise<{ items: T[] }>): Promise<T[]> {
  try {
    return (await list).items;
  } catch (thrown) {
    // The kind is not installed, so no objects exist.
    if (HearthError.from(thrown).code === 'NotFound') return [];
    throw thrown;
  }
}

function presence<T extends KubernetesObject>(found: unknown[], { kind }: ResourceType<T>, advice: string): Finding[] {
  if (found.length > 0) return [];
  return [{ node: '', name: kind, status: 'missing', detail: `there is no ${kind} of Hearth`, advice }];
}

function finding(name: string, isReady: boolean, detail: string, advice: string): Finding {
  return { node: '', name, status: isReady ? 'ok' : 'degraded', detail, advice: isReady ? '' : advice };
}

function versionFinding(text: string): Finding {
  const { major = '', minor = '', gitVersion = '' } = JSON.parse(text) as Record<string, string>;
  const isRecent = Number(major) > 1 || Number.parseInt(minor, 10) >= oldestMinor;
  const status = isRecent ? 'ok' : 'missing';
  const advice = isRecent ? '' : `Hearth needs Kubernetes 1.${oldestMinor} or later.`;
  return { node: '', name: 'Kubernetes', status, detail: gitVersion, advice };
}

async function nodeFindings(session: ClusterSession, pod: AgentPod) {
  const { kubeConfig } = await session.cluster();
  const program = { ...pod, pod: pod.name, container: agentContainer, words: ['hearth', '--json', 'doctor'] };
  try {
    const { code, stdout, stderr } = await outputInPod(await kubeConfig(), program, session.signal());
    const probes = parseProbes(stdout);
    if (probes === undefined)
      throw new HearthError('ProtocolError', stderr.trim() || `hearth doctor ended with ${code}`);
    return { findings: probes.map((one) => ({ ...one, node: pod.node })), isBroken: code !== 0 };
  } catch (thrown) {
    const { message } = HearthError.from(thrown);
    const [detail = '', advice = ''] = message.split('; ');
    return { findings: [{ node: pod.node, name: 'doctor', status: 'missing', detail, advice }], isBroken: true };
  }
}

function parseProbes(text: string): Omit<Finding, 'node'>[] | undefined {
  try {
    return (JSON.parse(text) as { probes?: Omit<Finding, 'node'>[] }).probes;
  } catch {
    return undefined;
  }
}

/** Merges equal findings of several nodes into one row. */
function print(session: ClusterSession, findings: Finding[], checked: number): void {
  const rows = new Map<string, { finding: Finding; nodes: string[] }>();
  for (const one of findings) {
    const key = JSON.stringify([one.name, one.status, one.detail, one.advice]);
    const row = rows.get(key) ?? { finding: one, nodes: [] };
    if (one.node !== '') row.nodes.push(one.node);
    rows.set(key, row);
  }
  for (const { finding: one, nodes } of rows.values()) {
    const where = nodes.length === 0 ? '' : ` on ${nodes.map(printable).join(', ')}`;
    const status = paint(one.status, toneOf(one.status), session.terminal.colour);
    session.print(`${printable(one.name)}${where}: ${status}: ${printable(one.detail)}`);
    if (one.advice !== '') session.print(`  ${printable(one.advice)}`);
  }
  session.print(`${checked} checks, ${findings.filter(({ status }) => status !== 'ok').length} not in order.`);
}

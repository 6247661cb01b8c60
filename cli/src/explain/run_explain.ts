import { epochMs, within } from '@hearth/common';
import type { Output } from '../output.ts';
import type { ConnectedCluster } from './connection.ts';
import { explain } from './explanation.ts';
import { podFacts } from './facts.ts';
import { printExplanation } from './report.ts';
import { choosePod, type Target } from './target.ts';

/** Reads with the rights of the kubeconfig's user, and prints why the target's pod waits. */
export async function runExplain(
  output: Output,
  { api }: Pick<ConnectedCluster, 'api'>,
  namespace: string,
  target: Target,
): Promise<void> {
  const { clock, interrupt } = output.terminal;
  const signal = within(clock, output.timeoutMilliseconds, interrupt);
  const { pod, listed, others } = await choosePod(api, namespace, target, clock, signal);
  const facts = await podFacts(api, namespace, pod, signal, listed);
  const explanation = { ...explain(facts, epochMs(clock)), otherPods: others };
  if (output.json) output.printJson(explanation);
  else printExplanation(output, explanation);
}

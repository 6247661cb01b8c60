import { epochMs, within } from '@hearth/common';
import { Command } from 'commander';
import { act, type CommandContext, examples, type Session } from '../session.ts';

interface Options {
  namespace?: string;
  kubeconfig?: string;
  context?: string;
}

/** `hearth explain KIND/NAME`: where a pod's bytes are, what it waits for. Asks Kubernetes, as its user, and no agent. */
export function explainCommand(context: CommandContext): Command {
  return new Command('explain')
    .description(
      'Say why a pod waits, and where the bytes are that it reads.\n\n' +
        'Asks Kubernetes with your kubeconfig: datasets and what is there of them, the plan for the pod, what it waits for, when ' +
        'it should start and how it will read.',
    )
    .argument('<pod>', 'pod/NAME, or NAME; of deployment/NAME, statefulset/NAME and job/NAME the pod that waits')
    .option('-n, --namespace <namespace>', "namespace of the pod (default: the kubeconfig's)")
    .option('--kubeconfig <path>', 'kubeconfig (default: $KUBECONFIG, else ~/.kube/config, else the service account)')
    .option('--context <name>', 'context of the kubeconfig (default: the current one)')
    .addHelpText('after', examples(context, 'explain pod/web-0', 'explain deployment/web -n team --json'))
    .action(act(context, run));
}

async function run(session: Session, options: Options, text: string): Promise<undefined> {
  // The client of Kubernetes loads slowly, and no other command needs it.
  const { choosePod, parseTarget } = await import('../explain/target.ts');
  const target = parseTarget(text);
  const { connect } = await import('../explain/connection.ts');
  const { podFacts } = await import('../explain/facts.ts');
  const { explain } = await import('../explain/explanation.ts');
  const { printExplanation } = await import('../explain/report.ts');
  const { api, namespace: own } = await connect(options, session.terminal.environment);
  const namespace = options.namespace ?? own;
  const { clock, interrupt } = session.terminal;
  const signal = within(clock, session.timeoutMilliseconds, interrupt);
  const { pod, others } = await choosePod(api, namespace, target, clock, signal);
  const explanation = { ...explain(await podFacts(api, namespace, pod, signal), epochMs(clock)), otherPods: others };
  if (session.json) session.printJson(explanation);
  else printExplanation(session, explanation);
}

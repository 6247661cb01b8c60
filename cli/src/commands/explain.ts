import { Command } from 'commander';
import { type ActionContext, actPlainly, examples, type Output } from '../output.ts';

interface Options {
  namespace?: string;
  kubeconfig?: string;
  context?: string;
}

/**
 * `hearth explain KIND/NAME`: locates a pod's bytes and explains its wait. Asks Kubernetes with the user's rights, and
 * no agent.
 */
export function explainCommand(context: ActionContext): Command {
  return new Command('explain')
    .description(
      'Explain why a pod waits, and where its bytes are.\n\n' +
        'Asks Kubernetes with your kubeconfig. Shows the Datasets of the pod and their resident bytes, its plan, the awaited ' +
        'event, the expected start and the data path.',
    )
    .argument('<pod>', 'pod/NAME or NAME; deployment/NAME, statefulset/NAME or job/NAME stand for their waiting pod')
    .option('-n, --namespace <namespace>', "namespace of the pod (default: the kubeconfig's)")
    .option('--kubeconfig <path>', 'kubeconfig (default: $KUBECONFIG, else ~/.kube/config, else the service account)')
    .option('--context <name>', 'context of the kubeconfig (default: the current one)')
    .addHelpText('after', examples(context, 'explain pod/web-0', 'explain deployment/web -n team --json'))
    .action(actPlainly(context, run));
}

async function run(output: Output, options: Options, text: string): Promise<undefined> {
  // Loads the Kubernetes client lazily, because loading is slow and no other command needs it.
  const { parseTarget } = await import('../explain/target.ts');
  const target = parseTarget(text);
  const [{ connect }, { runExplain }] = await Promise.all([
    import('../explain/connection.ts'),
    import('../explain/run_explain.ts'),
  ]);
  const cluster = await connect(options, output.terminal.environment);
  await runExplain(output, cluster, options.namespace ?? cluster.namespace, target);
}

import { Command } from 'commander';
import { runExplain } from '../../explain/run_explain.ts';
import { parseTarget } from '../../explain/target.ts';
import { type ActionContext, examples } from '../../output.ts';
import { actOnCluster, type ClusterSession } from '../cluster_session.ts';

export function explainCommand(context: ActionContext): Command {
  return new Command('explain')
    .description('Explain why a pod waits, and where its bytes are.')
    .argument('<pod>', 'pod/NAME or NAME; deployment/NAME, statefulset/NAME or job/NAME stand for their waiting pod')
    .addHelpText('after', examples(context, 'explain pod/web-0', 'explain deployment/web -n team --json'))
    .action(
      actOnCluster(context, async (session: ClusterSession, _options: object, text: string) => {
        const target = parseTarget(text);
        const cluster = await session.cluster();
        await runExplain(session, cluster, session.namespace ?? cluster.namespace, target);
        return undefined;
      }),
    );
}

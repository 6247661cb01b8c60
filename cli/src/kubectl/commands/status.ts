import { Command } from 'commander';
import { type ActionContext, examples, watchSeconds } from '../../output.ts';
import { actOnCluster, type ClusterSession } from '../cluster_session.ts';
import { readOverview } from '../overview/read_overview.ts';
import { printOverview } from '../overview/report.ts';
import { watch } from '../watch.ts';

const defaultWatchSeconds = 2;

export function statusCommand(context: ActionContext): Command {
  return new Command('status')
    .description('Show nodes and their cache usage, Datasets, running preloads and waiting pods.')
    .option('--watch [seconds]', `refresh periodically (default: ${defaultWatchSeconds})`, watchSeconds)
    .addHelpText('after', examples(context, 'status', 'status -n team', 'status --watch', 'status --json'))
    .action(
      actOnCluster(context, async (session: ClusterSession, options: { watch?: number | true }) => {
        if (options.watch !== undefined) {
          const seconds = options.watch === true ? defaultWatchSeconds : options.watch;
          await watch(session, seconds, () => readOverview(session), printOverview);
          return undefined;
        }
        const overview = await readOverview(session);
        if (session.json) session.printJson(overview);
        else printOverview(session, overview);
        return undefined;
      }),
    );
}

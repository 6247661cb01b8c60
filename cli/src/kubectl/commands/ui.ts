import { randomBytes } from 'node:crypto';
import { sleep } from '@hearth/common';
import { Command } from 'commander';
import { type ActionContext, examples, wholeNumber } from '../../output.ts';
import { actOnCluster, type ClusterSession } from '../cluster_session.ts';
import { UiServer } from '../ui/ui_server.ts';

const refreshSeconds = 5;
/** Longer than anyone keeps a page open. */
const forEverMs = 2 ** 31;

export function uiCommand(context: ActionContext): Command {
  return new Command('ui')
    .description(
      'Serve a read-only page on this machine: nodes, Datasets, running preloads, and why pods wait.\n\n' +
        'Anyone who has the address of the page, which contains a token, sees the objects that your kubeconfig may read.',
    )
    .option('--port <port>', 'port of 127.0.0.1 (default: a free one)', wholeNumber(0, 65_535))
    .addHelpText('after', examples(context, 'ui', 'ui --port 8088 -n team'))
    .action(
      actOnCluster(context, async (session: ClusterSession, options: { port?: number }) => {
        const token = randomBytes(24).toString('base64url');
        // Fails early when there is no cluster.
        await session.cluster();
        await using server = await UiServer.start(session, { port: options.port ?? 0, token, refreshSeconds });
        if (session.json) session.printJson({ url: server.url });
        else session.print(`${server.url}`, 'Ctrl-C ends it.');
        const { interrupt, clock } = session.terminal;
        while (!interrupt.aborted) await sleep(clock, forEverMs, interrupt);
        return undefined;
      }),
    );
}

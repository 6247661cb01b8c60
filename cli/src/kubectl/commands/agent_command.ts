import { Command } from 'commander';
import { type ActionContext, examples } from '../../output.ts';
import { agentContainer, anAgent } from '../agent_pods.ts';
import { actOnCluster, type ClusterSession } from '../cluster_session.ts';
import { runInPod } from '../pod_program.ts';

/** Commands of `hearth` that run unchanged in an agent's pod. */
const known: Record<string, string> = {
  dataset: "Manage datasets as `hearth dataset` does in an agent's pod.",
  ls: 'List the files of a dataset.',
  cat: 'Write a file of a dataset.',
  verify: 'Read a dataset and compare checksums.',
  jobs: 'List warm jobs.',
  job: 'Show, watch or cancel a warm job.',
  pin: 'Keep a dataset in the caches.',
  unpin: 'Release a pin.',
  evict: 'Evict a dataset from caches.',
  advise: 'Advise which bytes will or will not be needed.',
  mounts: 'List the mounts of a node.',
  bench: 'Measure on a node.',
};

/** `kubectl hearth ls|pin|...`: runs `hearth ls|pin|...` in the pod of an agent. */
export function agentCommands(context: ActionContext): Command[] {
  return Object.entries(known).map(([name, description]) =>
    passing(new Command(name).description(description), context, (words) => [name, ...words]).addHelpText(
      'after',
      examples(context, `${name} ...`, `exec ${name} --help`),
    ),
  );
}

/** `kubectl hearth exec WORDS...`: runs any command of `hearth`, such as `hearth status`. */
export function execCommand(context: ActionContext): Command {
  const command = new Command('exec').description(
    "Run a command of `hearth` in an agent's pod.\n\n" +
      'HEARTH_NODE and HEARTH_CLUSTER choose the agent, HEARTH_NAMESPACE the namespace of the release. Anyone who may run this is ' +
      'root on the node.',
  );
  return passing(command, context, (words) => words).addHelpText(
    'after',
    examples(context, 'exec status', 'exec dataset show team.llama'),
  );
}

function passing(command: Command, context: ActionContext, wordsOf: (words: string[]) => string[]): Command {
  return command
    .argument('[words...]', 'command with its arguments')
    .allowUnknownOption()
    .passThroughOptions()
    .action(
      actOnCluster(context, (session: ClusterSession, _options: object, words: string[]) => {
        const json = session.json && !words.includes('--json') ? ['--json'] : [];
        return inAgent(session, [...json, ...wordsOf(words)]);
      }),
    );
}

async function inAgent(session: ClusterSession, words: string[]): Promise<number> {
  const { kubeConfig } = await session.cluster();
  const { namespace, name: pod } = await anAgent(session);
  const program = { namespace, pod, container: agentContainer, words: ['hearth', ...words] };
  const { stdout, stderr, interactive, interrupt } = session.terminal;
  const [out, err] = [stdout, stderr] as [NodeJS.WriteStream, NodeJS.WriteStream];
  const { stdin } = process;
  if (!interactive || !stdin.isTTY)
    return await runInPod(await kubeConfig(), program, { stdout: out, stderr: err }, interrupt);
  // The remote program receives every key, including Ctrl-C.
  stdin.setRawMode(true);
  try {
    return await runInPod(await kubeConfig(), program, { stdin, stdout: out }, interrupt);
  } finally {
    stdin.setRawMode(false);
    stdin.pause();
  }
}

import type { Outcome, Run } from './command.ts';

export type Preset = 'release' | 'asan' | 'tsan' | 'fuzz';

export interface NativeBuild {
  preset: Preset;
  /** Absent: all. */
  targets?: readonly string[];
}

/** Lower than everything else: what is built ahead gets what tests leave, while they wait. */
const idly = ['nice', '-n', '19', 'chrt', '--idle', '0'];

const script = ({ preset, targets = [] }: NativeBuild): string[] => ['scripts/build-native.sh', preset, ...targets];

/** The native builds of one run of the suites. A folder has one build at a time. */
export class NativeBuilds {
  readonly #ahead = new Map<Preset, Promise<Outcome>>();

  /**
   * Builds these one after the other beside the suites that follow, with the time that those leave. `run` limits all of it.
   * What fails is built once more by the suite that needs it, and reported there.
   */
  begin(run: Run, builds: readonly NativeBuild[]): void {
    let before: Promise<unknown> = Promise.resolve();
    for (const build of builds) {
      const [command = '', ...args] = [...idly, ...script(build)];
      const built = before.then(() => run(command, args, { quiet: true }));
      this.#ahead.set(build.preset, built);
      before = built;
    }
  }

  /** Builds it, after what was begun of it ahead. */
  async build(run: Run, build: NativeBuild): Promise<Outcome> {
    await this.#ahead.get(build.preset);
    const [command = '', ...args] = script(build);
    return await run(command, args);
  }
}

// kubectl hearth as files that need nothing beside them: node cli/executables/main.ts [FOLDER]
//   kubectl-hearth             a script for Node 24, on any platform
//   kubectl-hearth-PLATFORM    with Node inside, for each platform of executable.ts
import { writeChecksums } from './checksums.ts';
import { makeKubectlPrograms } from './programs.ts';

const folder = process.argv[2] ?? 'build/kubectl-hearth';
await writeChecksums(folder, await makeKubectlPrograms(folder));

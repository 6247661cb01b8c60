// Prints the paths of programs that tests need, one a line, building what this machine has not built before.
// Usage: node scripts/tools/get.ts kube-apiserver kubectl ... | all
// Exit 3 with the reason on standard error when one cannot be had on this machine, or HEARTH_TOOLS is `none`.
import { testToolNames, toolNames, tools } from './build.ts';
import { ToolUnavailable } from './cache.ts';

const names = process.argv.slice(2);
if (names.length === 0) {
  console.error(`Usage: get.ts all | NAME ...\nNames: ${toolNames.join(', ')}`);
  process.exit(2);
}
if (process.env.HEARTH_TOOLS === 'none') {
  console.error(`the gate starts no program that Go, Rust or pip builds (${names.join(', ')}); make test-slow does`);
  process.exit(3);
}
try {
  const wanted = names.includes('all') ? testToolNames : names;
  const paths = await tools(wanted);
  for (const name of wanted) console.log(paths[name]);
} catch (error) {
  if (!(error instanceof ToolUnavailable)) throw error;
  console.error(error.message);
  process.exit(3);
}

// How often the sources, of product and tests, say the same twice, and where: `node scripts/duplicates/main.ts`.
import { repeatedPassages } from './passages.ts';
import { sources } from './sources.ts';

const passages = repeatedPassages(sources());
for (const { path, first, last, again } of passages) {
  console.log(`${path}:${first}-${last} also ${again.path}:${again.first}`);
}
console.log(`${passages.length} passages stand in more than one place`);

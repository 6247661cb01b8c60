import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '@hearth/common/testing';
import { alertGroups, ruleGroups } from '../../monitoring/index.ts';
import { Page, pages } from './pages.ts';

describe('documentation', () => {
  const all = new Map(pages().map((page) => [page.path, page]));

  it('links to files and headings that there are', () => {
    const broken = [...all.values()].flatMap((page) =>
      page.links
        .filter(({ target, anchor }) => {
          if (!existsSync(join(root, target))) return true;
          return anchor !== '' && all.get(target)?.anchors.has(anchor) !== true;
        })
        .map(({ target, anchor }) => `${page.path}: ${target}#${anchor}`),
    );
    assert.deepEqual(broken, []);
  });

  it('has the runbook that each alert links to', () => {
    const { anchors } = new Page('docs/reference/alerts.md');
    const links = [...JSON.stringify(ruleGroups()).matchAll(/"runbook_url":"RUNBOOKS#([^"]*)"/g)];
    assert.equal(links.length, alertGroups.flatMap(({ alerts }) => alerts).length);
    assert.deepEqual(
      links.map(([, anchor = '']) => anchor).filter((anchor) => !anchors.has(anchor)),
      [],
    );
  });

  it('quotes messages as programs say them', () => {
    const globs = ['{operator,csi-driver,node-agent,cli,common}/src/**/*.ts', 'native/**/*.cc'];
    const files = globSync(globs, { cwd: root }).filter((path) => !/[._]test\.|\/(testing|generated)\//.test(path));
    // A sentence that a source divides into several strings is one sentence.
    const sources = files.map((path) => readFileSync(join(root, path), 'utf8')).join('\n');
    const said = sources.replaceAll(/['`"]\s*\+?\s*\n\s*['`"]/g, '').replaceAll("\\'", "'");
    const quotes = new Page('docs/troubleshooting.md').quotes.filter(isMessage);
    assert.ok(quotes.length > 15);
    const unsaid = quotes.filter((quote) => !parts(quote).every((part) => isSaid(part, said)));
    assert.deepEqual(unsaid, []);
  });
});

/** Messages of Kubernetes and the kernel, and words that are no message. */
const ofOthers = [
  /^(driver name csi|transport endpoint|MountVolume|Insufficient|Input\/output error)/,
  /^(kubectl|helm|volumeAttributes|nodeSelector|cluster: )/,
];

function isMessage(quote: string): boolean {
  return quote.split(' ').length > 2 && !ofOthers.some((pattern) => pattern.test(quote));
}

/** The parts of a message between words in capitals, which stand for names and figures, and `...`. */
function parts(quote: string): string[] {
  const own = quote.replace(/^hearth-cleanup: /, '');
  const divided = own.split(/N %|\b(?!HF|TOKEN)[A-Z]+\b|\.\.\.|; /);
  return divided.map((part) => part.replaceAll(/^[ ()]+|[ ()]+$/g, '')).filter((part) => part.length > 2);
}

/** True when the sources have the words, or two texts of which programs make them up. */
function isSaid(words: string, sources: string): boolean {
  if (sources.includes(words)) return true;
  const cuts = [...words.matchAll(/ /g)].map(({ index }) => index + 1);
  const long = cuts.filter((cut) => cut > 7 && words.length - cut > 7);
  return long.some((cut) => sources.includes(words.slice(0, cut)) && sources.includes(words.slice(cut)));
}

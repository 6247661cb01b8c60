import { readFile } from 'node:fs/promises';
import { HearthError, type Logger } from '@hearth/common';
import { z } from 'zod';

/** The operator's file: node groups of each StorageCluster with their selectors, and further conditions in words. */
const schema = z.record(
  z.string(),
  z.array(z.object({ name: z.string(), selector: z.string(), further: z.string().default('') })),
);
type Groups = z.infer<typeof schema>;

const maxNamed = 3;

/** Reads the node groups from a file of the operator, since csi-node has no access to the API server. */
export class NodeGroups {
  readonly #path: string;
  readonly #node: string;
  readonly #logger: Logger;

  constructor({ path, node, logger }: { path: string; node: string; logger: Logger }) {
    this.#path = path;
    this.#node = node;
    this.#logger = logger;
  }

  /** A clause about the nodes of a StorageCluster (undefined: of any); undefined without a readable file. */
  async selection(cluster: string | undefined): Promise<string | undefined> {
    const all = await this.#read();
    if (all === undefined) return undefined;
    if (cluster === undefined && Object.keys(all).length === 0) return 'there is no StorageCluster: create one';
    const groups = cluster === undefined ? all : { [cluster]: all[cluster] ?? [] };
    if (cluster !== undefined && all[cluster] === undefined) {
      const names = Object.keys(all).sort().join(', ') || 'none';
      return `there is no StorageCluster ${cluster} (there is ${names}): correct the attribute cluster`;
    }
    const clauses = Object.entries(groups).flatMap(([name, of]) => of.map((group) => this.#clause(name, group)));
    const more = clauses.length > maxNamed ? ` or one of ${clauses.length - maxNamed} more node groups` : '';
    return `it runs ${clauses.slice(0, maxNamed).join(', or ')}${more}; if the node is one of these, wait`;
  }

  #clause(cluster: string, { name, selector, further }: Groups[string][number]): string {
    const group = `node group ${name} of StorageCluster ${cluster}`;
    const also = further === '' ? '' : ` and ${further}`;
    if (selector === '') return `on every Linux node${also === '' ? '' : ` with ${further}`} (${group})`;
    const labels = selector.split(',').join(' ');
    return `on nodes with ${selector}${also} (${group}: kubectl label node ${this.#node} ${labels})`;
  }

  async #read(): Promise<Groups | undefined> {
    try {
      const parsed = schema.safeParse(JSON.parse(await readFile(this.#path, 'utf8')));
      if (parsed.success) return parsed.data;
      this.#logger.warn('failed to parse the node groups file: another release wrote it', { path: this.#path });
    } catch (thrown) {
      this.#logger.debug('failed to read the node groups file', { error: HearthError.from(thrown) });
    }
    return undefined;
  }
}

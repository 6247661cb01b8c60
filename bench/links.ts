import { run } from './command.ts';
import { ip, Namespaces, prefix, shape } from './network.ts';

/** Payload of a full TCP segment with timestamps, and its Ethernet frame as the kernel's shaper counts it. */
const payloadBytes = 1448;
const frameBytes = 1514;

/** The most that TCP can carry over a link of so many bits a second. */
export const payloadGibPerSecond = (bitsPerSecond: number): number =>
  (bitsPerSecond / 8) * (payloadBytes / frameBytes) * 2 ** -30;

/**
 * Two network namespaces with links between them, each shaped in both directions, as two machines with several network
 * cards have them.
 */
export class Links {
  readonly #count: number;
  readonly #namespaces: Namespaces;

  private constructor(count: number, namespaces: Namespaces) {
    this.#count = count;
    this.#namespaces = namespaces;
  }

  static async create(count: number, bitsPerSecond: number): Promise<Links> {
    const links = new Links(count, await Namespaces.begin());
    await links.#namespaces.make(async () => {
      for (const end of ends) {
        await ip('netns', 'add', namespaceOf(end));
        await ip('-n', namespaceOf(end), 'link', 'set', 'lo', 'up');
      }
      for (let link = 0; link < count; ++link) await connect(link, bitsPerSecond);
    });
    return links;
  }

  /** Namespace and addresses of an end, for hearth_bench_links; of the first link alone, or of all. */
  end(end: End, count: number = this.#count): string {
    const addresses = Array.from({ length: count }, (_, link) => addressOf(end, link));
    return [namespaceOf(end), ...addresses].join(',');
  }

  /** A command that cuts a link. */
  cutting(link: number): string {
    return `ip -n ${namespaceOf('holder')} link set ${deviceOf(link)} down`;
  }

  /** Cut links work again. */
  async mend(link: number): Promise<void> {
    await ip('-n', namespaceOf('holder'), 'link', 'set', deviceOf(link), 'up');
  }

  /** After the programs in them have ended. */
  async remove(): Promise<void> {
    await this.#namespaces.remove();
  }
}

const ends = ['holder', 'reader'] as const;
export type End = (typeof ends)[number];

const namespaceOf = (end: End): string => `${prefix}${process.pid}-${end}`;
const deviceOf = (link: number): string => `link${link}`;
const addressOf = (end: End, link: number): string => `10.252.${link}.${ends.indexOf(end) + 1}`;

async function connect(link: number, bitsPerSecond: number): Promise<void> {
  const device = deviceOf(link);
  const other = ['peer', 'name', device, 'netns', namespaceOf('reader')];
  await run('ip', ['link', 'add', device, 'netns', namespaceOf('holder'), 'type', 'veth', ...other], 10_000);
  for (const end of ends) {
    await ip('-n', namespaceOf(end), 'address', 'add', `${addressOf(end, link)}/24`, 'dev', device);
    await ip('-n', namespaceOf(end), 'link', 'set', device, 'up');
    await shape(namespaceOf(end), device, bitsPerSecond);
  }
}

import { placeOf } from '@hearth/common/resources';
import type { Nodes } from './nodes.ts';

/** Zone and rack of each node, as numbers; 0 without a label. */
export class Places {
  readonly zoneOf: Uint32Array;
  /** Racks of different zones may share a name. */
  readonly rackOf: Uint32Array;
  readonly zones: number;
  readonly racks: number;

  constructor(nodes: Nodes) {
    this.zoneOf = new Uint32Array(nodes.size);
    this.rackOf = new Uint32Array(nodes.size);
    const zones = new Map<string, number>();
    const racks = new Map<string, number>();
    for (const [node, { labels }] of nodes.all.entries()) {
      const { zone, rack } = placeOf(labels);
      if (zone !== '') this.zoneOf[node] = numberOf(zones, zone);
      if (rack !== '') this.rackOf[node] = numberOf(racks, `${zone}/${rack}`);
    }
    this.zones = zones.size;
    this.racks = racks.size;
  }
}

function numberOf(numbers: Map<string, number>, name: string): number {
  const number = numbers.get(name) ?? numbers.size + 1;
  numbers.set(name, number);
  return number;
}

/**
 * Prefers nodes whose zone, then whose rack, has an agent with more of the missing bytes, so that bytes cross racks and
 * zones only without a better node.
 */
export class Nearness {
  readonly #places: Places;
  readonly #zones: Uint8Array;
  readonly #racks: Uint8Array;

  /** `lacking`: percents that each node neither has nor will get for other groups. */
  constructor(places: Places, lacking: Uint8Array) {
    this.#places = places;
    this.#zones = new Uint8Array(places.zones + 1);
    this.#racks = new Uint8Array(places.racks + 1);
    if (places.zones + places.racks === 0) return;
    for (let node = 0; node < lacking.length; node++) {
      const held = 100 - (lacking[node] as number);
      if (held === 0) continue;
      raise(this.#zones, places.zoneOf[node] as number, held);
      raise(this.#racks, places.rackOf[node] as number, held);
    }
  }

  of(node: number): number {
    const { zoneOf, rackOf } = this.#places;
    const zone = this.#zones[zoneOf[node] as number] as number;
    return zone * 101 + (this.#racks[rackOf[node] as number] as number);
  }
}

function raise(percents: Uint8Array, place: number, percent: number): void {
  if (place > 0 && (percents[place] as number) < percent) percents[place] = percent;
}

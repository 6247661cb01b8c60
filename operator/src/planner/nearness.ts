import { placeOf } from '@hearth/common/resources';
import type { Nodes } from './nodes.ts';

/** The zone and the rack of each node, as numbers; 0: its labels do not say. */
export class Places {
  readonly zoneOf: Uint32Array;
  /** A rack is one within its zone: others may have racks of the same name. */
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
 * How near a node is to bytes that it lacks: how much of them the fullest agent of its zone has, in whole percents, and
 * then that of its rack. So bytes come from another zone only when there is no better node, and likewise from another rack.
 */
export class Nearness {
  readonly #places: Places;
  /** By number of the zone and of the rack: percents. */
  readonly #zones: Uint8Array;
  readonly #racks: Uint8Array;

  /** `lacking`: by node, the percents that it neither has nor will have for others. */
  constructor(places: Places, lacking: Uint8Array) {
    this.#places = places;
    this.#zones = new Uint8Array(places.zones + 1);
    this.#racks = new Uint8Array(places.racks + 1);
    if (places.zones + places.racks === 0) return;
    for (let node = 0; node < lacking.length; node++) {
      const there = 100 - (lacking[node] as number);
      if (there === 0) continue;
      raise(this.#zones, places.zoneOf[node] as number, there);
      raise(this.#racks, places.rackOf[node] as number, there);
    }
  }

  /** The higher the nearer. */
  of(node: number): number {
    const { zoneOf, rackOf } = this.#places;
    const zone = this.#zones[zoneOf[node] as number] as number;
    return zone * 101 + (this.#racks[rackOf[node] as number] as number);
  }
}

/** Of a place that has a number. */
function raise(percents: Uint8Array, place: number, percent: number): void {
  if (place > 0 && (percents[place] as number) < percent) percents[place] = percent;
}

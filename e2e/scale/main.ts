// `make bench-scale`: the operator and the store beside a thousand agents, which are the agents' own code without engines, on a
// real API server and real etcds. Prints a table and writes build/scale.json; ends with 1 when a bound does not hold.
// SCALE_NODES (1000), SCALE_DATASETS (2 a node), SCALE_PODS (100 a node), SCALE_GATED (gated pods a minute, one for two
// nodes), SCALE_SECONDS (300) of the measurement, SCALE_PROCESSES (4) for the agents.
import { mkdirSync, writeFileSync } from 'node:fs';
import { cpus, loadavg } from 'node:os';
import { join } from 'node:path';
import { root } from '@hearth/common/testing';
import { failOver } from './fail_over.ts';
import { GatedPods } from './gated_pods.ts';
import { type Row, steadyState } from './measure.ts';
import { Stage } from './stage.ts';

function count(name: string, otherwise: number): number {
  const value = Number(process.env[name] || otherwise);
  if (!Number.isSafeInteger(value) || value < 1) throw new Error(`${name} must be a whole number above 0`);
  return value;
}

const nodes = count('SCALE_NODES', 1_000);
const sizes = {
  nodes,
  datasets: count('SCALE_DATASETS', nodes * 2),
  pods: count('SCALE_PODS', nodes * 100),
  processes: count('SCALE_PROCESSES', 4),
};
const gatedAMinute = count('SCALE_GATED', Math.ceil(nodes / 2));
const seconds = count('SCALE_SECONDS', 300);

const began = performance.now();
const say = (text: string) => console.log(`${((performance.now() - began) / 1000).toFixed(0).padStart(5)} s  ${text}`);

const stage = await Stage.start(sizes);
try {
  // With few agents first, as each new Dataset is work for every one of them, and all share this machine.
  const few = Math.min(nodes, 20);
  say(`${few} nodes join`);
  await stage.nodes.join(few);
  say(`${sizes.datasets} Datasets`);
  const { warm, cold } = await stage.makeDatasets();
  say(`${nodes - few} nodes join`);
  await stage.nodes.join(nodes - few);
  say(`${sizes.pods} pods of others`);
  await stage.fillNodes();
  const pods = new GatedPods(stage.server.api, warm);
  await pods.start();
  pods.flow(gatedAMinute);
  say(`${gatedAMinute} gated pods a minute, measured for ${seconds} s`);
  const steady = await steadyState(stage, pods, seconds);
  say('the leader is killed');
  const after = await failOver(stage, pods, cold);
  pods.close();
  report([...steady, ...after], pods);
} finally {
  await stage.stop();
}

function report(rows: Row[], { ungated, failures }: GatedPods): void {
  for (const { what, value, unit, limit } of rows) {
    const bound = limit === undefined ? '' : `  (at most ${limit}${value <= limit ? '' : ': NOT HELD'})`;
    console.log(`${what.padEnd(64)} ${value.toFixed(value < 10 ? 2 : 0).padStart(9)} ${unit}${bound}`);
  }
  if (ungated > 0) console.log(`${ungated} pods were created without a gate`);
  for (const failure of [...failures, ...stage.nodes.failures].slice(0, 5)) console.log(failure);
  const machine = { cores: cpus().length, load: loadavg() };
  mkdirSync(join(root, 'build'), { recursive: true });
  const result = { at: new Date().toISOString(), sizes, gatedAMinute, seconds, machine, ungated, failures, rows };
  writeFileSync(join(root, 'build/scale.json'), `${JSON.stringify(result, null, 2)}\n`);
  if (rows.some(({ value, limit }) => limit !== undefined && !(value <= limit))) process.exitCode = 1;
}

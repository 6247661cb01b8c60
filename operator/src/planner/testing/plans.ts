import assert from 'node:assert/strict';
import type { PlanInput } from '../input.ts';
import type { GroupPlan, WarmPlan } from '../plan.ts';
import { plan } from '../planner.ts';

/** The plan of the only group. */
export function only(given: PlanInput): GroupPlan {
  const plans = [...plan(given).values()];
  assert.equal(plans.length, 1);
  return plans[0] as GroupPlan;
}

export function warm(found: GroupPlan | undefined): WarmPlan {
  assert.equal(found?.kind, 'warm', JSON.stringify(found));
  return found as WarmPlan;
}

/** Nodes that are to hold the bytes. */
export function names(found: WarmPlan): string[] {
  return found.nodes.map((one) => one.node);
}

/** Nodes of the pods, in their order. */
export function places(found: WarmPlan): string[] {
  return [...found.assignment.values()];
}

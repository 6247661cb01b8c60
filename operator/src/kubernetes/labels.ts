import { fieldManager } from '@hearth/common/resources';

export const componentLabel = 'app.kubernetes.io/component';
export const managedByLabel = 'app.kubernetes.io/managed-by';
/** Chooses everything that the operator made, of all clusters. */
export const ownedSelector = `${managedByLabel}=${fieldManager}`;

/** Labels of an object of the operator that belongs to no cluster. */
export function labelsOfOperator(component: string): Record<string, string> {
  return { 'app.kubernetes.io/name': 'hearth', [componentLabel]: component, [managedByLabel]: fieldManager };
}

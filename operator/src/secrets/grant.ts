/** The readers of Secrets, and the role of each: names that the chart gives. */
export interface SecretGrant {
  /** ClusterRole with `get` on Secrets, bound only in the namespaces that allow it. */
  clusterRole: string;
  serviceAccount: { namespace: string; name: string };
}

/** The command by which an administrator lets the operator read the Secrets of a namespace. */
export function grantCommand({ clusterRole, serviceAccount }: SecretGrant, namespace: string): string {
  const account = `${serviceAccount.namespace}:${serviceAccount.name}`;
  return `kubectl create rolebinding ${clusterRole} --namespace=${namespace} --clusterrole=${clusterRole} --serviceaccount=${account}`;
}

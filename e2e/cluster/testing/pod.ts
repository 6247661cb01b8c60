/** A pod of one container of `local/busybox:1` on a node. */
export function pod(
  name: string,
  node: string,
  command: string,
  more: { container?: object; volumes?: object[] } = {},
) {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, labels: { name } },
    spec: {
      nodeName: node,
      terminationGracePeriodSeconds: 0,
      containers: [
        {
          name: 'main',
          image: 'local/busybox:1',
          imagePullPolicy: 'Never',
          command: ['sh', '-c', command],
          ...more.container,
        },
      ],
      volumes: more.volumes ?? [],
    },
  };
}

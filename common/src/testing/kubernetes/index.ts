/** Real API servers: alone, with the chart, with the scheduler or controllers of Kubernetes. */
export { Admission, type Answer } from './admission.ts';
export { startApiServer, TestApiServer } from './api_server.ts';
export {
  Chart,
  chartFolder,
  collectionPath,
  flags,
  type Manifest,
  podSpecs,
  releaseNamespace,
  someRegistry,
} from './chart.ts';
export { ChartServer, cleanupUser, operatorUser } from './chart_server.ts';
export { ControllerManager } from './controller_manager.ts';
export { apiOf, writeKubeconfig } from './kubeconfig.ts';
export { OperatorProcess } from './operator_process.ts';
export { apiServerReady } from './readiness.ts';
export { isRefused, SimulatedCluster } from './simulated_cluster.ts';

// The files that tools check and test. Nothing that git ignores: caches and models of `make run` hold files of every
// name, and mounts that must not be walked through.

/** Arguments of biome, whose configuration has it leave out everything that git ignores. */
export const styleCheck = ['check', '--error-on-warnings', '.'];

/** Pathspecs of git, which reads no directory but those in its index, and no untracked one that it ignores. */
export const generatedFiles = [':(glob)**/generated/**', 'docs/reference'];

/** Globs of mocha, each below folders of sources. */
export const testFiles = {
  /** The gate's walk through the product: three agents warm, mount, read and survive a kill; the CSI driver mounts a volume. */
  walk: ['e2e/src/kill.test.ts', 'e2e/src/csi.test.ts'],
  /** Single rooms, in two processes that take about as long; without `slow` and `onApiServer`. */
  agent: [
    '{native/binding,node-agent,cli,csi-driver}/src/**/*.test.ts',
    '{scripts,monitoring,bench,cli/executables,e2e/release}/**/*.test.ts',
  ],
  operator: ['{operator,common}/src/**/*.test.ts'],
  /** Whole programs and tests that take long or measure; some need programs written in Go. */
  slow: ['e2e/{src,soak}/**/*.test.ts', '{demo,scripts/tools}/**/*.test.ts'],
  /** Rooms whose verdict depends on time. */
  timed: ['**/*_slow.test.ts'],
  /** One of them has processor time as its limit, so nothing runs beside it. */
  measured: ['e2e/src/operator_scale.test.ts'],
  /** Replaces a running cluster of the previous release, which is built from history. */
  upgrade: ['e2e/src/upgrade.test.ts', 'e2e/src/previous_release.test.ts'],
  /** Engines, by their own packages. */
  plugins: ['e2e/plugins/*.test.ts'],
  /** Controllers and the client of Kubernetes, each beside the code that they test, against a real API server. */
  onApiServer: ['{common,operator}/src/**/*.kubernetes.test.ts'],
  /** Kubernetes as users meet it. */
  kubernetes: ['e2e/{cluster,kubernetes}/**/*.test.ts'],
  /** Suites of these that need nodes; the rest needs an API server alone. */
  onNodes: [
    'e2e/cluster/kubernetes_cluster.test.ts',
    'e2e/cluster/leftovers.test.ts',
    'e2e/kubernetes/{csi_driver,first_page,image,journey_*,pull_secrets}.test.ts',
  ],
  /** One node: install, a ready StorageCluster, a Dataset, a pod that compares a checksum, uninstall. */
  smoke: ['e2e/smoke/*.test.ts'],
};

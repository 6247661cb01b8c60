# One image for all of Hearth: `hearth` (agent, command line), hearth-holder, hearth-csi-node, hearth-operator.
# `docker build .` makes it, and so does `make image`, which needs no daemon and nothing from an image registry.
ARG NODE_VERSION=24.21.0
ARG DEBIAN_IMAGE=debian:bookworm-slim
ARG NODE_IMAGE=node:${NODE_VERSION}-bookworm-slim

# Packages that only the build needs: headers of Node's C++ interface, and the writers of TypeScript from proto/.
FROM ${NODE_IMAGE} AS tools
WORKDIR /tools
COPY package.json manifest/
RUN --mount=type=cache,target=/root/.npm \
  npm install --no-audit --no-fund --no-package-lock \
    $(node -p "['node-addon-api', 'node-api-headers', '@bufbuild/buf', 'ts-proto', 'yaml'].map((name) => name + '@' + require('./manifest/package.json').devDependencies[name]).join(' ')")

FROM tools AS generated
COPY package.json ./
COPY proto proto
COPY scripts scripts
RUN node scripts/generate-constants.ts && node scripts/generate-protocols.ts

FROM ${DEBIAN_IMAGE} AS native
RUN apt-get update \
  && apt-get install -y --no-install-recommends \
    ccache clang-19 cmake libcurl4-openssl-dev libgmock-dev libgtest-dev libibverbs-dev libssl-dev liburing-dev ninja-build \
    pkg-config zlib1g-dev \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /opt/hearth
COPY --from=tools /tools/node_modules/node-addon-api node_modules/node-addon-api
COPY --from=tools /tools/node_modules/node-api-headers node_modules/node-api-headers
# The holder says of which release it is.
COPY package.json ./
COPY native native
RUN --mount=type=cache,target=/root/.cache/ccache \
  cmake -S native --preset release -DCMAKE_CXX_COMPILER_LAUNCHER=ccache >/dev/null \
  && cmake --build build/release --target hearth_binding hearth-holder hearth-probe hearth-load hearth-rdma-bench -- --quiet \
  && mkdir -p programs/binding programs/gpu programs/holder programs/probe programs/rdma_bench \
  && strip -o programs/binding/hearth.node build/release/binding/hearth.node \
  && strip -o programs/gpu/hearth-load build/release/gpu/hearth-load \
  && strip -o programs/holder/hearth-holder build/release/holder/hearth-holder \
  && strip -o programs/probe/hearth-probe build/release/probe/hearth-probe \
  && strip -o programs/rdma_bench/hearth-rdma-bench build/release/rdma_bench/hearth-rdma-bench \
  && rm -rf build

FROM ${NODE_IMAGE} AS packages
WORKDIR /opt/hearth
COPY package.json package-lock.json ./
COPY common/package.json common/
COPY native/binding/package.json native/binding/
COPY node-agent/package.json node-agent/
COPY cli/package.json cli/
COPY csi-driver/package.json csi-driver/
COPY operator/package.json operator/
# Not `npm ci`: see scripts/setup.sh. No package that runs in production has an install script.
RUN --mount=type=cache,target=/root/.npm \
  npm install --omit=dev --no-audit --no-fund --ignore-scripts \
  && find node_modules -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' -o -iname 'readme*' -o -iname 'changelog*' \) -delete \
  && mkdir -p node_modules/.bin && ln -sf /usr/local/bin/node node_modules/.bin/node

FROM ${DEBIAN_IMAGE}
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates ibverbs-providers libcurl4 libibverbs1 liburing2 libstdc++6 mount zlib1g \
  && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*
COPY --from=packages /usr/local/bin/node /usr/local/bin/
WORKDIR /opt/hearth
COPY --from=packages /opt/hearth/node_modules node_modules
COPY --from=native /opt/hearth/programs build/release
COPY package.json ./
COPY common common
COPY native/binding native/binding
COPY node-agent node-agent
COPY cli cli
COPY csi-driver csi-driver
COPY operator operator
COPY --from=generated /tools/common/src/generated common/src/generated
COPY --from=generated /tools/node-agent/src/store/generated node-agent/src/store/generated
COPY --from=generated /tools/csi-driver/src/generated csi-driver/src/generated
COPY native/fuse/hearth_ioctl.h /usr/local/include/
COPY scripts/image scripts/image
# The programs on the PATH, and what Node has compiled of them, so that they start faster and in less memory.
ENV NODE_COMPILE_CACHE=/opt/hearth/compile-cache NODE_ENV=production
RUN scripts/image/finish.sh
USER 65532:65532
CMD ["hearth", "--help"]

# One image for all of Hearth: `hearth` (agent, command line), hearth-holder, hearth-csi-node, hearth-operator.
# `docker build .` makes it, and so does `make image`, which needs no daemon and nothing from an image registry.
ARG NODE_VERSION=24.21.0
ARG DEBIAN_IMAGE=debian:bookworm-slim
ARG NODE_IMAGE=node:${NODE_VERSION}-bookworm-slim
# The same images of the machine that builds: compilers and npm run there, whatever processor the image is for.
ARG BUILD_DEBIAN_IMAGE=${DEBIAN_IMAGE}
ARG BUILD_NODE_IMAGE=${NODE_IMAGE}
ARG BUILD_PLATFORM=${BUILDPLATFORM}
# buildah 1.28 takes the platform of the stage before for the next one that says none.
ARG TARGET_PLATFORM=${TARGETPLATFORM}

# Packages that only the build needs: headers of Node's C++ interface, and the writers of TypeScript from proto/.
FROM --platform=$BUILD_PLATFORM ${BUILD_NODE_IMAGE} AS tools
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

FROM --platform=$BUILD_PLATFORM ${BUILD_DEBIAN_IMAGE} AS native
ARG BUILDARCH
ARG TARGETARCH
COPY scripts/image/compilers.sh /usr/local/bin/
RUN compilers.sh $BUILDARCH $TARGETARCH
WORKDIR /opt/hearth
COPY --from=tools /tools/node_modules/node-addon-api node_modules/node-addon-api
COPY --from=tools /tools/node_modules/node-api-headers node_modules/node-api-headers
# The holder says of which release it is.
COPY package.json ./
COPY native native
COPY scripts/image/engine.sh scripts/image/
RUN --mount=type=cache,target=/root/.cache/ccache scripts/image/engine.sh $BUILDARCH $TARGETARCH

FROM --platform=$BUILD_PLATFORM ${BUILD_NODE_IMAGE} AS packages
ARG TARGETARCH
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
  npm install --omit=dev --no-audit --no-fund --ignore-scripts --os=linux --cpu=$(echo $TARGETARCH | sed s/amd64/x64/) \
  && find node_modules -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' -o -iname 'readme*' -o -iname 'changelog*' \) -delete \
  && mkdir -p node_modules/.bin && ln -sf /usr/local/bin/node node_modules/.bin/node

FROM --platform=$TARGET_PLATFORM ${NODE_IMAGE} AS node

FROM --platform=$TARGET_PLATFORM ${DEBIAN_IMAGE}
RUN apt-get update \
  && apt-get install -y --no-install-recommends ca-certificates ibverbs-providers libcurl4 libibverbs1 liburing2 libstdc++6 mount zlib1g \
  && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*
COPY --from=node /usr/local/bin/node /usr/local/bin/
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

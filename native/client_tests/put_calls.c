#include "put_calls.h"

#include <stdlib.h>
#include <string.h>

#include "xfer/gd2fs.h"

static xfer_gd2fs_ctx *connect_to(const char *agent) {
  xfer_gd2fs_options options;
  memset(&options, 0, sizeof options);
  options.cp_address = agent;
  options.dp_address = "tcp://127.0.0.1";
  options.cluster_id = "test";
  return xfer_gd2fs_connect(&options);
}

/* Takes `count` completions, of which each has moved `value` bytes, the one with `last_id` `last`. */
static int take(xfer_gd2fs_ctx *ctx, size_t count, size_t value, void *last_id, size_t last) {
  while (count-- > 0) {
    xfer_gd2fs_completion done;
    if (xfer_gd2fs_wait(ctx, &done, 1, -1) != 1) return -1;
    if (XFER_GD2FS_STATUS_CODE(done.status) != 0) return -1;
    if (done.value != (done.id == last_id ? last : value)) return -1;
  }
  return 0;
}

static int put(xfer_gd2fs_ctx *ctx, const char *path, const unsigned char *bytes, size_t size,
               size_t part) {
  const size_t count = (size + part - 1) / part;
  xfer_gd2fs_iomem *const iomem = xfer_gd2fs_reg_iomem(ctx, (void *)bytes, size, NULL);
  size_t i;
  if (iomem == NULL) return 3;
  if (xfer_gd2fs_create(ctx, NULL, path, 0, size) != 0 || take(ctx, 1, 0, NULL, 0) != 0) return 4;
  for (i = count; i-- > 0;) {
    const size_t offset = i * part;
    xfer_gd2fs_sge sge;
    sge.addr = (void *)(bytes + offset);
    sge.len = size - offset < part ? size - offset : part;
    sge.iomem = iomem;
    if (xfer_gd2fs_pwritev(ctx, (void *)(i + 1), path, offset, &sge, 1, 0) != 0) return 5;
  }
  if (take(ctx, count, part, (void *)count, size - (count - 1) * part) != 0) return 6;
  return xfer_gd2fs_dereg_iomem(ctx, iomem) != 0 ? 7 : 0;
}

static int get(xfer_gd2fs_ctx *ctx, const char *path, const unsigned char *bytes, size_t size) {
  unsigned char *const memory = malloc(size);
  xfer_gd2fs_sge sge;
  int failed = 0;
  if (memory == NULL) return 8;
  sge.addr = memory;
  sge.len = size;
  sge.iomem = xfer_gd2fs_reg_iomem(ctx, memory, size, NULL);
  if (sge.iomem == NULL) failed = 9;
  if (!failed && xfer_gd2fs_preadv(ctx, ctx, path, 0, &sge, 1, 0) != 0) failed = 10;
  if (!failed && take(ctx, 1, 0, ctx, size) != 0) failed = 11;
  if (!failed && memcmp(memory, bytes, size) != 0) failed = 12;
  xfer_gd2fs_close(ctx);
  free(memory);
  return failed;
}

int put_and_get(const char *writer, const char *reader, const char *path, const unsigned char *bytes,
                size_t size, size_t part) {
  xfer_gd2fs_ctx *ctx = connect_to(writer);
  int failed;
  if (ctx == NULL) return 1;
  failed = put(ctx, path, bytes, size, part);
  xfer_gd2fs_close(ctx);
  if (failed) return failed;
  ctx = connect_to(reader);
  if (ctx == NULL) return 2;
  return get(ctx, path, bytes, size);
}

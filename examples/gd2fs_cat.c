/* Writes a file of a dataset to the standard output, read through libgd2fs:
 *
 *   cc -o gd2fs_cat gd2fs_cat.c $(pkg-config --cflags --libs libgd2fs)
 *   ./gd2fs_cat /var/run/hearth /dataset/team.llama-3/config.json
 *
 * The first argument is the folder of a volume with clientAccess; libgd2fs itself finds the token there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xfer/gd2fs.h"

enum { kAtOnce = 4 << 20, kLongest = 4096 };

/* The text of FOLDER/NAME; 0 when it cannot be read. */
static int read_text(const char *folder, const char *name, char text[kLongest]) {
  char path[kLongest];
  FILE *file;
  size_t size;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  file = fopen(path, "r");
  if (file == NULL) return perror(path), 0;
  size = fread(text, 1, kLongest - 1, file);
  text[size] = '\0';
  fclose(file);
  return size > 0;
}

static int copy_out(xfer_gd2fs_ctx *ctx, const char *path) {
  char *memory = malloc(kAtOnce);
  xfer_gd2fs_sge part = {memory, kAtOnce, xfer_gd2fs_reg_iomem(ctx, memory, kAtOnce, NULL)};
  xfer_gd2fs_completion done = {0};
  uint64_t offset = 0;
  do {
    ssize_t refused = xfer_gd2fs_preadv(ctx, NULL, path, offset, &part, 1, 0);
    if (refused == 0 && xfer_gd2fs_wait(ctx, &done, 1, -1) != 1) refused = -1;
    if (refused != 0 || done.status != 0) {
      const int code = refused != 0 ? (int)-refused : (int)XFER_GD2FS_STATUS_CODE(done.status);
      fprintf(stderr, "%s: %s\n", path, strerror(code));
      free(memory);
      return 1;
    }
    fwrite(memory, 1, done.value, stdout);
    offset += done.value;
  } while (done.value == kAtOnce);
  free(memory);
  return fflush(stdout) == 0 ? 0 : 1;
}

int main(int count, char **words) {
  char addresses[kLongest], cluster[kLongest];
  xfer_gd2fs_options options = {0};
  xfer_gd2fs_ctx *ctx;
  int result;
  if (count != 3) return fputs("usage: gd2fs_cat FOLDER /dataset/NAME/PATH\n", stderr), 2;
  if (!read_text(words[1], "addresses", addresses) || !read_text(words[1], "cluster", cluster)) return 1;
  options.cp_address = addresses;
  options.cluster_id = cluster;
  options.log_level = "error";
  ctx = xfer_gd2fs_connect(&options);
  if (ctx == NULL) return perror("connect"), 1;
  result = copy_out(ctx, words[2]);
  xfer_gd2fs_close(ctx);
  return result;
}

/* A C program that uses tensors made in Rust, and frees them. */

#include <dlpack/dlpack.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

/* src/lib.rs */
int32_t freed(void);
DLManagedTensorVersioned *make_rows(void);
DLManagedTensor *make_rows_legacy(void);
DLManagedTensorVersioned *make_columns_reversed(void);
DLManagedTensorVersioned *make_constants(void);
void lend_twice(DLManagedTensorVersioned *out[2]);
float run_kernel(void (*kernel)(DLTensor *));

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);   \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

/* The element of a float32 tensor at an index. Strides count elements and may be negative; the byte
 * offset counts from data. */
static float *at(const DLTensor *t, const int64_t *index) {
  int64_t offset = 0;
  for (int32_t axis = 0; axis < t->ndim; ++axis) offset += index[axis] * t->strides[axis];
  return (float *)((char *)t->data + t->byte_offset) + offset;
}

/* What a consumer looks at before it touches any element. */
static void check_floats(const DLTensor *t, int32_t ndim) {
  CHECK(t->device.device_type == kDLCPU);
  CHECK(t->dtype.code == kDLFloat && t->dtype.bits == 32 && t->dtype.lanes == 1);
  CHECK(t->ndim == ndim && t->strides != NULL);
}

static float sum(const DLTensor *t) {
  float total = 0;
  for (int64_t i = 0; i < t->shape[0]; ++i)
    for (int64_t j = 0; j < t->shape[1]; ++j) total += *at(t, (int64_t[]){i, j});
  return total;
}

static void *free_elsewhere(void *managed) {
  DLManagedTensorVersioned *m = managed;
  m->deleter(m);
  return NULL;
}

static void add_ten(DLTensor *t) {
  for (int64_t i = 0; i < t->shape[0]; ++i)
    for (int64_t j = 0; j < t->shape[1]; ++j) *at(t, (int64_t[]){i, j}) += 10;
}

int main(void) {
  /* Versioned: the version first, then the flags, then everything else. */
  DLManagedTensorVersioned *rows = make_rows();
  CHECK(rows != NULL && rows->version.major == DLPACK_MAJOR_VERSION);
  CHECK(!(rows->flags & DLPACK_FLAG_BITMASK_READ_ONLY));
  check_floats(&rows->dl_tensor, 2);
  CHECK(sum(&rows->dl_tensor) == 15);
  *at(&rows->dl_tensor, (int64_t[]){1, 2}) = 50;
  CHECK(sum(&rows->dl_tensor) == 60);
  rows->deleter(rows);
  CHECK(freed() == 6);

  /* Legacy: no version, no flags. */
  DLManagedTensor *legacy = make_rows_legacy();
  CHECK(legacy != NULL);
  check_floats(&legacy->dl_tensor, 2);
  CHECK(sum(&legacy->dl_tensor) == 15);
  legacy->deleter(legacy);
  CHECK(freed() == 12);

  /* Strides that are negative and not those of C order. */
  DLManagedTensorVersioned *columns = make_columns_reversed();
  check_floats(&columns->dl_tensor, 2);
  CHECK(columns->dl_tensor.shape[0] == 3 && columns->dl_tensor.shape[1] == 2);
  const float expected[3][2] = {{2, 5}, {1, 4}, {0, 3}};
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 2; ++j)
      CHECK(*at(&columns->dl_tensor, (int64_t[]){i, j}) == expected[i][j]);

  /* The deleter may be called on any thread. */
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, free_elsewhere, columns) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(freed() == 18);

  /* What must not be written says so. */
  DLManagedTensorVersioned *constants = make_constants();
  CHECK(constants->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
  check_floats(&constants->dl_tensor, 1);
  CHECK(*at(&constants->dl_tensor, (int64_t[]){1}) == 3.5f);
  constants->deleter(constants);

  /* Lent twice: one piece of memory, freed with the last. */
  DLManagedTensorVersioned *twice[2];
  lend_twice(twice);
  CHECK(twice[0]->dl_tensor.data == twice[1]->dl_tensor.data);
  twice[0]->deleter(twice[0]);
  CHECK(freed() == 18 && sum(&twice[1]->dl_tensor) == 15);
  twice[1]->deleter(twice[1]);
  CHECK(freed() == 24);

  /* And a kernel of ours on memory that Rust keeps. */
  CHECK(run_kernel(add_ten) == 14);

  puts("ok: every tensor was read, written where that is allowed, and freed once");
  return 0;
}

/* A C program that makes tensors and gives them to Rust. */

#include <dlpack/dlpack.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* src/lib.rs */
int take_and_sum(DLManagedTensorVersioned *m, double *out, char *message, size_t size);
int take_and_sum_legacy(DLManagedTensor *m, double *out, char *message, size_t size);
typedef struct Tensor Tensor;
Tensor *keep(DLManagedTensorVersioned *m);
int free_on_a_thread(Tensor *tensor);

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);   \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

/* What the deleter frees, in one piece with the managed tensor. */
typedef struct {
  union {
    DLManagedTensorVersioned versioned;
    DLManagedTensor legacy;
  } managed;
  int64_t shape[2], strides[2];
  float *data;
} Block;

static int deleted;
static pthread_t deleted_on;

static void delete_block(Block *block) {
  ++deleted;
  deleted_on = pthread_self();
  free(block->data);
  free(block);
}

static void delete_versioned(DLManagedTensorVersioned *m) { delete_block(m->manager_ctx); }
static void delete_legacy(DLManagedTensor *m) { delete_block(m->manager_ctx); }

/* Two rows of three: 1 to 6, with strides of C order unless they are left out. */
static Block *make_block(DLTensor *t) {
  Block *block = calloc(1, sizeof *block);
  CHECK(block != NULL);
  block->data = malloc(6 * sizeof *block->data);
  CHECK(block->data != NULL);
  for (int i = 0; i < 6; ++i) block->data[i] = (float)(i + 1);
  block->shape[0] = 2, block->shape[1] = 3;
  block->strides[0] = 3, block->strides[1] = 1;
  *t = (DLTensor){.data = block->data,
                  .device = {kDLCPU, 0},
                  .ndim = 2,
                  .dtype = {kDLFloat, 32, 1},
                  .shape = block->shape,
                  .strides = block->strides};
  return block;
}

static DLManagedTensorVersioned *make(void) {
  DLTensor t;
  Block *block = make_block(&t);
  block->managed.versioned =
      (DLManagedTensorVersioned){.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                                 .manager_ctx = block,
                                 .deleter = delete_versioned,
                                 .dl_tensor = t};
  return &block->managed.versioned;
}

static DLManagedTensor *make_legacy(void) {
  DLTensor t;
  Block *block = make_block(&t);
  block->managed.legacy =
      (DLManagedTensor){.dl_tensor = t, .manager_ctx = block, .deleter = delete_legacy};
  return &block->managed.legacy;
}

/* Gives a tensor to Rust, which takes it. */
static double taken(DLManagedTensorVersioned *m) {
  double sum = 0;
  char message[200] = "";
  const int before = deleted, error = take_and_sum(m, &sum, message, sizeof message);
  if (error) fprintf(stderr, "%s\n", message);
  CHECK(!error && deleted == before + 1);
  return sum;
}

/* Gives a tensor to Rust, which refuses it with a text that begins so. It was freed all the same. */
static void refused(DLManagedTensorVersioned *m, const char *text) {
  double sum = 0;
  char message[200] = "";
  const int before = deleted;
  CHECK(take_and_sum(m, &sum, message, sizeof message) == 1);
  if (strncmp(message, text, strlen(text)) != 0) fprintf(stderr, "%s\n", message);
  CHECK(strncmp(message, text, strlen(text)) == 0);
  CHECK(deleted == before + 1);
}

int main(void) {
  DLManagedTensorVersioned *m = make();
  CHECK(taken(m) == 21);

  /* NULL strides mean C order. DLPack 1.2 forbids them, and older producers have them. */
  m = make();
  m->dl_tensor.strides = NULL;
  CHECK(taken(m) == 21);

  /* The second row, the last number first: a byte offset and a negative stride. */
  m = make();
  m->dl_tensor.ndim = 1;
  m->dl_tensor.shape[0] = 3;
  m->dl_tensor.strides[0] = -1;
  m->dl_tensor.byte_offset = 5 * sizeof(float);
  CHECK(taken(m) == 15);

  /* No elements, and so no data. */
  m = make();
  m->dl_tensor.shape[1] = 0;
  m->dl_tensor.data = NULL;
  CHECK(taken(m) == 0);

  /* A scalar has neither shape nor strides. */
  m = make();
  m->dl_tensor.ndim = 0;
  m->dl_tensor.shape = m->dl_tensor.strides = NULL;
  CHECK(taken(m) == 1);

  double sum = 0;
  const int before = deleted;
  CHECK(take_and_sum_legacy(make_legacy(), &sum, NULL, 0) == 0);
  CHECK(sum == 21 && deleted == before + 1);

  /* What breaks the specification is refused, says why, and is freed. */
  m = make();
  m->version.major = 2;
  refused(m, "the managed tensor is of DLPack version 2.");
  m = make();
  m->dl_tensor.ndim = -1;
  refused(m, "ndim is -1; it must be 0 to ");
  m = make();
  m->dl_tensor.shape[0] = -2;
  refused(m, "the extent of axis 0 is -2;");
  m = make();
  m->dl_tensor.data = NULL;
  refused(m, "the data of a tensor with elements is NULL;");
  m = make();
  m->dl_tensor.dtype.bits = 64;
  m->dl_tensor.shape[1] = 1;
  m->dl_tensor.strides[0] = 1;
  refused(m, "expected dtype float32, found float64;");

  char message[20] = "";
  CHECK(take_and_sum(NULL, &sum, message, sizeof message) == 1);
  CHECK(strcmp(message, "the managed tensor ") == 0); /* cut to the buffer */

  /* Kept by Rust, and freed on a thread that is not this one. */
  Tensor *kept = keep(make());
  const int kept_before = deleted;
  CHECK(kept != NULL);
  CHECK(free_on_a_thread(kept) == 0);
  CHECK(deleted == kept_before + 1 && !pthread_equal(deleted_on, pthread_self()));

  puts("ok: every tensor was taken or refused, and freed once");
  return 0;
}
